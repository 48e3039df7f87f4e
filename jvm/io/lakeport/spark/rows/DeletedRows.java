package io.lakeport.spark.rows;

import io.lakeport.spark.files.Driver;
import io.lakeport.spark.files.Recent;
import java.io.IOException;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.HashMap;
import java.util.Map;
import org.roaringbitmap.IntConsumer;
import org.roaringbitmap.RoaringBitmap;

/** The positions of deleted rows in a scan's files, by file number. */
public record DeletedRows(Driver.Key scan) implements Serializable {
    private static final Recent<String, Fetched> KNOWN = new Recent<>(100);

    Positions of(long file) throws IOException {
        return KNOWN.get(scan.id() + "/" + file, Fetched::new).positions(scan, file);
    }

    /** The positions for one file. One task fetches them; concurrent tasks wait for the same fetch. */
    private static final class Fetched {
        private Positions positions;

        synchronized Positions positions(Driver.Key scan, long file) throws IOException {
            if (positions == null) {
                positions = Positions.decode(Driver.of(scan).vector((int) file));
            }
            return positions;
        }
    }

    /** Row positions in the layout of Delta's deletion vectors: 32-bit bitmaps by the upper half of the position. */
    static final class Positions {
        private static final int MAGIC = 1681511377;

        private final RoaringBitmap first = new RoaringBitmap();
        private final Map<Integer, RoaringBitmap> others = new HashMap<>();

        private Positions() {}

        static Positions decode(byte[] payload) throws IOException {
            ByteBuffer buffer = ByteBuffer.wrap(payload).order(ByteOrder.LITTLE_ENDIAN);
            if (buffer.getInt() != MAGIC) {
                throw new IOException("a deletion vector of the table has an unknown format");
            }
            Positions positions = new Positions();
            for (long count = buffer.getLong(); count > 0; count--) {
                int key = buffer.getInt();
                RoaringBitmap bitmap = key == 0 ? positions.first : new RoaringBitmap();
                bitmap.deserialize(buffer.slice().order(ByteOrder.LITTLE_ENDIAN));
                buffer.position(buffer.position() + bitmap.serializedSizeInBytes());
                if (key != 0) {
                    positions.others.put(key, bitmap);
                }
            }
            return positions;
        }

        /** Calls {@code taken} with the offset of each position in the range of {@code count} from {@code start}. */
        void forEachAmong(long start, int count, IntConsumer taken) {
            boolean isHigh = start >= 1L << 31; // started below it, the bitmap's loop misses positions above
            if (start + count <= (isHigh ? 1L << 32 : 1L << 31)) {
                first.forEachInRange((int) start, count, position -> taken.accept((int) (Integer.toUnsignedLong(position) - start)));
                return;
            }
            for (int i = 0; i < count; i++) {
                if (contains(start + i)) {
                    taken.accept(i);
                }
            }
        }

        boolean contains(long position) {
            int key = (int) (position >>> 32);
            if (key == 0) {
                return first.contains((int) position);
            }
            RoaringBitmap bitmap = others.get(key);
            return bitmap != null && bitmap.contains((int) position);
        }
    }
}

package io.lakeport.spark;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.roaringbitmap.RoaringBitmap;

/** A set of row positions, as Delta's deletion vectors have it: 32-bit bitmaps by the upper half of the positions. */
final class Positions {
    private static final int MAGIC = 1681511377;

    private final RoaringBitmap[] bitmaps;

    private Positions(RoaringBitmap[] bitmaps) {
        this.bitmaps = bitmaps;
    }

    static Positions decode(byte[] payload) throws IOException {
        ByteBuffer buffer = ByteBuffer.wrap(payload).order(ByteOrder.LITTLE_ENDIAN);
        if (buffer.getInt() != MAGIC) {
            throw new IOException("a deletion vector of the table is not of the known kind");
        }
        long count = buffer.getLong();
        RoaringBitmap[] bitmaps = new RoaringBitmap[0];
        for (long i = 0; i < count; i++) {
            int key = buffer.getInt();
            RoaringBitmap bitmap = new RoaringBitmap();
            bitmap.deserialize(buffer.slice().order(ByteOrder.LITTLE_ENDIAN));
            buffer.position(buffer.position() + bitmap.serializedSizeInBytes());
            if (key >= bitmaps.length) {
                bitmaps = java.util.Arrays.copyOf(bitmaps, key + 1);
            }
            bitmaps[key] = bitmap;
        }
        return new Positions(bitmaps);
    }

    boolean contains(long position) {
        int key = (int) (position >>> 32);
        return key < bitmaps.length && bitmaps[key] != null && bitmaps[key].contains((int) position);
    }
}

package io.lakeport.spark.files;

import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.IntFunction;
import org.apache.hadoop.fs.FSInputStream;
import org.apache.hadoop.fs.FileRange;

/** Random access to a file. Small reads come from a read-ahead buffer; large ones go straight to the storage. */
final class FileInput extends FSInputStream {
    private static final int AHEAD = 1 << 20;
    /** The end of a file, with its footer, is read first. */
    private static final int TAIL = 128 << 10;
    /** Files up to this size are read whole: faster than a second request. */
    private static final int SMALL = 512 << 10;
    /** A file is opened first for its footer, then for its rows: the bytes of the first read are kept. */
    private static final Recent<String, byte[]> TAILS = new Recent<>(16);

    private final String name;
    private final Ranges ranges;
    private final long size;
    private long position;
    private byte[] buffer = new byte[0];
    private long bufferStart;

    /** The name is the cache key; null for files that are fast to read. */
    FileInput(String name, Ranges ranges, long size) {
        this.name = name;
        this.ranges = ranges;
        this.size = size;
    }

    @Override
    public long getPos() {
        return position;
    }

    @Override
    public void seek(long target) throws IOException {
        if (target < 0 || target > size) {
            throw new EOFException("a file of " + size + " bytes has no position " + target);
        }
        position = target;
    }

    @Override
    public boolean seekToNewSource(long target) {
        return false;
    }

    @Override
    public int available() {
        return (int) Math.min(Integer.MAX_VALUE, size - position);
    }

    @Override
    public int read() throws IOException {
        byte[] one = new byte[1];
        return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
    }

    @Override
    public int read(byte[] into, int offset, int length) throws IOException {
        if (length == 0) {
            return 0;
        }
        if (position >= size) {
            return -1;
        }
        int wanted = (int) Math.min(length, size - position);
        if (!isBuffered(position, 1) && wanted >= AHEAD) {
            ranges.read(position, into, offset, wanted);
        } else {
            fill();
            wanted = (int) Math.min(wanted, bufferStart + buffer.length - position);
            System.arraycopy(buffer, (int) (position - bufferStart), into, offset, wanted);
        }
        position += wanted;
        return wanted;
    }

    private boolean isBuffered(long start, int length) {
        return start >= bufferStart && start + length <= bufferStart + buffer.length;
    }

    private void fill() throws IOException {
        if (isBuffered(position, 1)) {
            return;
        }
        long tail = Math.max(0, size - (size <= SMALL ? SMALL : TAIL));
        if (position < tail) {
            buffer = bytes(position, (int) Math.min(AHEAD, size - position));
            bufferStart = position;
            return;
        }
        byte[] known = name == null ? null : TAILS.find(name);
        buffer = known != null ? known : bytes(tail, (int) (size - tail));
        bufferStart = tail;
        if (name != null) {
            TAILS.put(name, buffer);
        }
    }

    private byte[] bytes(long start, int length) throws IOException {
        byte[] bytes = new byte[length];
        ranges.read(start, bytes, 0, length);
        return bytes;
    }

    @Override
    public void readVectored(List<? extends FileRange> wanted, IntFunction<ByteBuffer> allocate) throws EOFException {
        for (FileRange range : wanted) {
            if (range.getOffset() < 0 || range.getOffset() + range.getLength() > size) {
                throw new EOFException("a file of " + size + " bytes has no range " + range);
            }
            range.setData(startRange(range, allocate.apply(range.getLength())));
        }
    }

    private CompletableFuture<ByteBuffer> startRange(FileRange range, ByteBuffer target) {
        int length = range.getLength();
        if (isBuffered(range.getOffset(), length)) {
            return CompletableFuture.completedFuture(put(target, buffer, (int) (range.getOffset() - bufferStart), length));
        }
        if (target.hasArray()) {
            return ranges.start(range.getOffset(), target.array(), target.arrayOffset(), length).thenApply(nothing -> target);
        }
        byte[] bytes = new byte[length];
        return ranges.start(range.getOffset(), bytes, 0, length).thenApply(nothing -> put(target, bytes, 0, length));
    }

    private static ByteBuffer put(ByteBuffer target, byte[] bytes, int offset, int length) {
        return target.put(bytes, offset, length).flip();
    }

    @Override
    public void close() throws IOException {
        ranges.close();
        super.close();
    }
}

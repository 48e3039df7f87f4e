package io.lakeport.spark;

import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.IntFunction;
import org.apache.hadoop.fs.FSInputStream;
import org.apache.hadoop.fs.FileRange;

/** A file for random access. Small reads are served from a buffer that is read ahead; large ones go straight to the storage. */
final class FileInput extends FSInputStream {
    private static final int AHEAD = 1 << 20;
    /** The end of a file holds what is read first: its footer. */
    private static final int TAIL = 128 << 10;

    private final Ranges ranges;
    private final long size;
    private long position;
    private byte[] buffer = new byte[0];
    private long bufferStart;

    FileInput(Ranges ranges, long size) {
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
        long start = position >= size - TAIL ? Math.max(0, size - TAIL) : position;
        byte[] next = new byte[(int) Math.min(AHEAD, size - start)];
        ranges.read(start, next, 0, next.length);
        buffer = next;
        bufferStart = start;
    }

    @Override
    public int minSeekForVectorReads() {
        return 128 << 10;
    }

    @Override
    public int maxReadSizeForVectorReads() {
        return 16 << 20;
    }

    @Override
    public void readVectored(List<? extends FileRange> wanted, IntFunction<ByteBuffer> allocate) {
        for (FileRange range : wanted) {
            range.setData(CompletableFuture.supplyAsync(() -> readRange(range, allocate)));
        }
    }

    private ByteBuffer readRange(FileRange range, IntFunction<ByteBuffer> allocate) {
        try {
            ByteBuffer buffer = allocate.apply(range.getLength());
            byte[] bytes = buffer.hasArray() ? buffer.array() : new byte[range.getLength()];
            int offset = buffer.hasArray() ? buffer.arrayOffset() : 0;
            ranges.read(range.getOffset(), bytes, offset, range.getLength());
            if (!buffer.hasArray()) {
                buffer.put(bytes).flip();
            }
            return buffer;
        } catch (IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
    }

    @Override
    public void close() throws IOException {
        if (ranges instanceof AutoCloseable) {
            try {
                ((AutoCloseable) ranges).close();
            } catch (IOException error) {
                throw error;
            } catch (Exception error) {
                throw new IOException(error);
            }
        }
        super.close();
    }
}

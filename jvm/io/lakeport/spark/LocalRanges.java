package io.lakeport.spark;

import java.io.EOFException;
import java.io.IOException;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/** Ranges of a file on a disk that the task reaches. */
final class LocalRanges implements Ranges, AutoCloseable {
    private final FileChannel channel;

    LocalRanges(String url) throws IOException {
        channel = FileChannel.open(Path.of(URI.create(url)), StandardOpenOption.READ);
    }

    @Override
    public void read(long start, byte[] into, int offset, int length) throws IOException {
        ByteBuffer buffer = ByteBuffer.wrap(into, offset, length);
        while (buffer.hasRemaining()) {
            if (channel.read(buffer, start + length - buffer.remaining()) < 0) {
                throw new EOFException("a file of the table ends too early");
            }
        }
    }

    @Override
    public void close() throws IOException {
        channel.close();
    }
}

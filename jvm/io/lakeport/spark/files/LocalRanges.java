package io.lakeport.spark.files;

import java.io.EOFException;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.concurrent.CompletableFuture;

/** Ranges of a file on a local disk. */
final class LocalRanges implements Ranges {
    private final FileChannel channel;

    LocalRanges(String url) throws IOException {
        Path path = Path.of(URI.create(url));
        try {
            channel = FileChannel.open(path, StandardOpenOption.READ);
        } catch (NoSuchFileException error) {
            throw new FileNotFoundException(path + " does not exist; it may have been vacuumed, or this machine cannot reach it");
        }
    }

    /** Synchronous: a disk needs no other thread. */
    @Override
    public CompletableFuture<Void> start(long start, byte[] into, int offset, int length) {
        try {
            read(start, into, offset, length);
            return CompletableFuture.completedFuture(null);
        } catch (IOException error) {
            return CompletableFuture.failedFuture(error);
        }
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

package plain;

import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

/** Files by their URLs: {@code plain://http/<size>-<URL in base64>.parquet}. It reads ranges, and does nothing else. */
public final class PlainHttpFileSystem extends FileSystem {
    @Override
    public void initialize(URI name, Configuration conf) throws IOException {
        super.initialize(name, conf);
        setConf(conf);
    }

    @Override
    public URI getUri() {
        return URI.create("plain://http");
    }

    @Override
    public FSDataInputStream open(Path path, int bufferSize) {
        String name = path.getName();
        String encoded = name.substring(name.indexOf('.') + 1, name.lastIndexOf('.'));
        return new FSDataInputStream(new Input(new String(Base64.getUrlDecoder().decode(encoded), StandardCharsets.UTF_8), sizeOf(path)));
    }

    @Override
    public FileStatus getFileStatus(Path path) {
        return new FileStatus(sizeOf(path), false, 1, sizeOf(path), 0, makeQualified(path));
    }

    @Override
    public FileStatus[] listStatus(Path path) {
        return new FileStatus[] {getFileStatus(path)};
    }

    private static long sizeOf(Path path) {
        String name = path.getName();
        return Long.parseLong(name.substring(0, name.indexOf('.')));
    }

    @Override
    public Path getWorkingDirectory() {
        return new Path("plain://http/");
    }

    @Override
    public void setWorkingDirectory(Path path) {}

    @Override
    public FSDataOutputStream create(
            Path path, FsPermission permission, boolean overwrite, int bufferSize, short replication, long blockSize, Progressable progress) {
        throw new UnsupportedOperationException();
    }

    @Override
    public FSDataOutputStream append(Path path, int bufferSize, Progressable progress) {
        throw new UnsupportedOperationException();
    }

    @Override
    public boolean rename(Path from, Path to) {
        throw new UnsupportedOperationException();
    }

    @Override
    public boolean delete(Path path, boolean recursive) {
        throw new UnsupportedOperationException();
    }

    @Override
    public boolean mkdirs(Path path, FsPermission permission) {
        throw new UnsupportedOperationException();
    }

    /** One request for each read; the end of the file, where small reads are, is fetched once. */
    private static final class Input extends FSInputStream {
        private static final int TAIL = 64 << 10;

        private final String url;
        private final long size;
        private long position;
        private byte[] tail;

        Input(String url, long size) {
            this.url = url;
            this.size = size;
        }

        @Override
        public long getPos() {
            return position;
        }

        @Override
        public void seek(long target) {
            position = target;
        }

        @Override
        public boolean seekToNewSource(long target) {
            return false;
        }

        @Override
        public int read() throws IOException {
            byte[] one = new byte[1];
            return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
        }

        @Override
        public int read(byte[] into, int offset, int length) throws IOException {
            int wanted = (int) Math.min(length, size - position);
            if (wanted <= 0) {
                return -1;
            }
            fetch(position, into, offset, wanted);
            position += wanted;
            return wanted;
        }

        private void fetch(long start, byte[] into, int offset, int length) throws IOException {
            long tailStart = Math.max(0, size - TAIL);
            if (start < tailStart) {
                range(start, into, offset, length);
                return;
            }
            if (tail == null) {
                tail = new byte[(int) (size - tailStart)];
                range(tailStart, tail, 0, tail.length);
            }
            System.arraycopy(tail, (int) (start - tailStart), into, offset, length);
        }

        private void range(long start, byte[] into, int offset, int length) throws IOException {
            HttpURLConnection connection = (HttpURLConnection) URI.create(url).toURL().openConnection();
            connection.setRequestProperty("Range", "bytes=" + start + "-" + (start + length - 1));
            try (InputStream body = connection.getInputStream()) {
                if (body.readNBytes(into, offset, length) < length) {
                    throw new EOFException();
                }
            }
        }
    }
}

package io.lakeport.spark.files;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URI;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

/**
 * The files of a planned scan, as {@code lakeport://scan/…/number-size.parquet}. The driver knows each file's current
 * URL. Read-only.
 */
public final class ScanFileSystem extends FileSystem {
    /** How long a storage may be silent before the request is repeated. */
    private static final String STALL_SECONDS = "fs.lakeport.stall.seconds";

    private static final int DEFAULT_STALL_SECONDS = 20;

    private URI uri;
    private Driver driver;
    private int stallMs;

    @Override
    public void initialize(URI name, Configuration conf) throws IOException {
        super.initialize(name, conf);
        setConf(conf);
        uri = URI.create(name.getScheme() + "://" + name.getAuthority());
        driver = Driver.of(Driver.Key.of(name.getAuthority(), conf));
        stallMs = 1000 * conf.getInt(STALL_SECONDS, DEFAULT_STALL_SECONDS);
    }

    @Override
    public String getScheme() {
        return "lakeport";
    }

    @Override
    public URI getUri() {
        return uri;
    }

    @Override
    public FSDataInputStream open(Path path, int bufferSize) throws IOException {
        FileName name = FileName.parse(path);
        Ranges ranges = Ranges.open(driver, name.number(), name.size(), stallMs);
        String distant = ranges instanceof HttpRanges ? uri.getAuthority() + "/" + name.number() : null;
        return new FSDataInputStream(new FileInput(distant, ranges, name.size()));
    }

    @Override
    public FileStatus getFileStatus(Path path) throws IOException {
        Path whole = makeQualified(path);
        if (FileName.matches(whole)) {
            return FileName.parse(whole).status(whole.getParent());
        }
        require(whole);
        return new FileStatus(0, true, 0, 0, 0, whole);
    }

    @Override
    public FileStatus[] listStatus(Path path) throws IOException {
        Path whole = makeQualified(path);
        if (FileName.matches(whole)) {
            return new FileStatus[] {getFileStatus(whole)};
        }
        require(whole);
        return driver.document().below(whole.toUri().getPath(), whole);
    }

    private void require(Path directory) throws IOException {
        if (!driver.document().roots().contains(directory.toUri().getPath())) {
            throw new FileNotFoundException("the scan has no such directory: " + directory);
        }
    }

    @Override
    public Path getWorkingDirectory() {
        return new Path(uri.toString(), "/");
    }

    @Override
    public void setWorkingDirectory(Path path) {}

    @Override
    public FSDataOutputStream create(
            Path path, FsPermission permission, boolean overwrite, int bufferSize, short replication, long blockSize, Progressable progress)
            throws IOException {
        throw readOnly();
    }

    @Override
    public FSDataOutputStream append(Path path, int bufferSize, Progressable progress) throws IOException {
        throw readOnly();
    }

    @Override
    public boolean rename(Path from, Path to) throws IOException {
        throw readOnly();
    }

    @Override
    public boolean delete(Path path, boolean recursive) throws IOException {
        throw readOnly();
    }

    @Override
    public boolean mkdirs(Path path, FsPermission permission) throws IOException {
        throw readOnly();
    }

    private static IOException readOnly() {
        return new IOException("a scan is read-only");
    }
}

package io.lakeport.spark;

import java.io.IOException;
import java.io.UncheckedIOException;
import org.apache.spark.sql.api.java.UDF2;

/** Whether a row of a file is not deleted, by the number of the file in the scan and the position of the row in it. */
public final class LivingRows implements UDF2<Long, Long, Boolean> {
    private static final long serialVersionUID = 1;
    private static final Recent<String, Deleted> KNOWN = new Recent<>(100);

    private final String scan;
    private final String address;
    private final String secret;
    private transient volatile Deleted last;

    public LivingRows(String scan, String address, String secret) {
        this.scan = scan;
        this.address = address;
        this.secret = secret;
    }

    @Override
    public Boolean call(Long file, Long row) {
        Deleted deleted = last;
        if (deleted == null || deleted.file != file) {
            deleted = KNOWN.get(scan + "/" + file, () -> new Deleted(file));
            last = deleted;
        }
        return !deleted.positions(this).contains(row);
    }

    /** Those of a file; one task fetches them, others that need them at that time wait. */
    private static final class Deleted {
        private final long file;
        private volatile Positions positions;

        Deleted(long file) {
            this.file = file;
        }

        Positions positions(LivingRows of) {
            Positions known = positions;
            return known != null ? known : fetch(of);
        }

        private synchronized Positions fetch(LivingRows of) {
            try {
                if (positions == null) {
                    positions = Positions.decode(Driver.of(of.scan, of.address, of.secret).vector((int) file));
                }
                return positions;
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }
    }
}

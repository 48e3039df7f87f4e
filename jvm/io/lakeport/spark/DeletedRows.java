package io.lakeport.spark;

import java.io.IOException;
import java.io.Serializable;

/** The positions of deleted rows in a scan's files, by file number. */
final class DeletedRows implements Serializable {
    private static final long serialVersionUID = 1;
    private static final Recent<String, Fetched> KNOWN = new Recent<>(100);

    private final String scan;
    private final String address;
    private final String secret;

    DeletedRows(String scan, String address, String secret) {
        this.scan = scan;
        this.address = address;
        this.secret = secret;
    }

    Positions of(long file) throws IOException {
        return KNOWN.get(scan + "/" + file, Fetched::new).positions(this, file);
    }

    /** The positions for one file. One task fetches them; concurrent tasks wait for the same fetch. */
    private static final class Fetched {
        private Positions positions;

        synchronized Positions positions(DeletedRows of, long file) throws IOException {
            if (positions == null) {
                positions = Positions.decode(Driver.of(of.scan, of.address, of.secret).vector((int) file));
            }
            return positions;
        }
    }
}

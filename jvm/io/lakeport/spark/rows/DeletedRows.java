package io.lakeport.spark.rows;

import io.lakeport.spark.files.Driver;
import io.lakeport.spark.files.Recent;
import io.lakeport.spark.files.ScanKey;
import java.io.IOException;
import java.io.Serializable;

/** The positions of deleted rows in a scan's files, by file number. */
public record DeletedRows(ScanKey scan) implements Serializable {
    private static final Recent<String, Fetched> KNOWN = new Recent<>(100);

    Positions of(long file) throws IOException {
        return KNOWN.get(scan.id() + "/" + file, Fetched::new).positions(scan, file);
    }

    /** The positions for one file. One task fetches them; concurrent tasks wait for the same fetch. */
    private static final class Fetched {
        private Positions positions;

        synchronized Positions positions(ScanKey scan, long file) throws IOException {
            if (positions == null) {
                positions = Positions.decode(Driver.of(scan).vector((int) file));
            }
            return positions;
        }
    }
}

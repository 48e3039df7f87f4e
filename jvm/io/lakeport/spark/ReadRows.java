package io.lakeport.spark;

import java.io.Closeable;
import java.io.IOException;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;

/** What becomes of rows, or of batches of them, that a reader gives. */
abstract class ReadRows extends AbstractIterator<Object> implements Closeable {
    protected final Iterator<Object> rows;

    ReadRows(Iterator<Object> rows) {
        this.rows = rows;
    }

    @Override
    public void close() throws IOException {
        if (rows instanceof Closeable open) {
            open.close();
        }
    }
}

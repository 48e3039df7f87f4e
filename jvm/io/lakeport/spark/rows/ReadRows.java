package io.lakeport.spark.rows;

import java.io.Closeable;
import java.io.IOException;
import java.util.NoSuchElementException;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;

/** The rows or batches of a reader, filtered. */
abstract class ReadRows extends AbstractIterator<Object> implements Closeable {
    private final Iterator<Object> rows;
    private Object ahead;

    ReadRows(Iterator<Object> rows) {
        this.rows = rows;
    }

    /** The row or batch; null to drop it. */
    abstract Object kept(Object next);

    @Override
    public final boolean hasNext() {
        while (ahead == null && rows.hasNext()) {
            ahead = kept(rows.next());
        }
        return ahead != null;
    }

    @Override
    public final Object next() {
        if (!hasNext()) {
            throw new NoSuchElementException();
        }
        Object next = ahead;
        ahead = null;
        return next;
    }

    @Override
    public void close() throws IOException {
        if (rows instanceof Closeable open) {
            open.close();
        }
    }
}

package io.lakeport.spark;

import java.io.Closeable;
import java.io.IOException;
import java.util.NoSuchElementException;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;

/** What is kept of rows, or of batches of them, that a reader gives. */
abstract class ReadRows extends AbstractIterator<Object> implements Closeable {
    private final Iterator<Object> rows;
    private Object ahead;

    ReadRows(Iterator<Object> rows) {
        this.rows = rows;
    }

    /** The row or the batch; null if it is left out. */
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

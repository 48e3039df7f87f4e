package io.lakeport.spark.files;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Supplier;

/** An LRU cache; evicted values are rebuilt when needed. */
public final class Recent<K, V> {
    private final Map<K, V> values;

    public Recent(int most) {
        values = new LinkedHashMap<>(16, 0.75f, true) {
            private static final long serialVersionUID = 1;

            @Override
            protected boolean removeEldestEntry(Map.Entry<K, V> eldest) {
                return size() > most;
            }
        };
    }

    public synchronized V get(K key, Supplier<V> make) {
        V known = values.get(key);
        if (known == null) {
            known = make.get();
            values.put(key, known);
        }
        return known;
    }

    /** Null if absent. */
    synchronized V find(K key) {
        return values.get(key);
    }

    synchronized void put(K key, V value) {
        values.put(key, value);
    }

    synchronized void remove(K key) {
        values.remove(key);
    }
}

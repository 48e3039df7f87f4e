package io.lakeport.spark;

import io.lakeport.spark.files.Driver;
import io.lakeport.spark.files.ScanKey;
import java.lang.ref.Cleaner;

/** Notifies the driver's Python process when no Spark plan refers to a scan any more. */
public final class Lifetime {
    private static final Cleaner CLEANER = Cleaner.create();

    private Lifetime() {}

    /** The scan lives as long as this object, which all plans over it refer to. */
    public static void watch(Object heldByPlans, ScanKey scan) {
        CLEANER.register(heldByPlans, () -> Driver.of(scan).end());
    }
}

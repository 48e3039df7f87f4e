package io.lakeport.spark;

import java.lang.ref.Cleaner;

/** Tells the driver's Python process when no plan of Spark has a scan any more. */
public final class Lifetime {
    private static final Cleaner CLEANER = Cleaner.create();

    private Lifetime() {}

    /** The scan ends with the object, which all plans over the scan refer to. */
    public static void watch(Object heldByPlans, String scan, String address, String secret) {
        CLEANER.register(heldByPlans, () -> Driver.of(scan, address, secret).end());
    }
}

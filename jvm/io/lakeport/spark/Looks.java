package io.lakeport.spark;

import io.lakeport.spark.files.Fetching;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** Inspects some files in parallel, for a short time: query planning waits for it. */
final class Looks {
    private static final int SECONDS = 5;

    private Looks() {}

    /** The first finding; null if there is none in time. Failures are ignored. */
    static String first(List<Fetching.Work<String>> looks) {
        CompletableFuture<String> found = new CompletableFuture<>();
        List<CompletableFuture<Void>> started = looks.stream().map(look -> start(look, found)).toList();
        CompletableFuture.allOf(started.toArray(new CompletableFuture<?>[0])).thenRun(() -> found.complete(null));
        return found.completeOnTimeout(null, SECONDS, TimeUnit.SECONDS).join();
    }

    /** On its own thread: those of `Fetching` do the reading. */
    private static CompletableFuture<Void> start(Fetching.Work<String> look, CompletableFuture<String> found) {
        CompletableFuture<Void> ended = new CompletableFuture<>();
        Thread thread = new Thread(() -> {
            try {
                String result = look.run();
                if (result != null) {
                    found.complete(result);
                }
            } catch (Exception error) { // the read itself will report it
            } finally {
                ended.complete(null);
            }
        }, "lakeport-looking");
        thread.setDaemon(true);
        thread.setContextClassLoader(Looks.class.getClassLoader());
        thread.start();
        return ended;
    }
}

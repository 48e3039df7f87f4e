package io.lakeport.spark;

import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** Looks at some files, all at once and not for long: who plans a query waits for them. */
final class Looks {
    private static final int SECONDS = 5;

    private Looks() {}

    /** What the first of them finds that finds something; null if none does in time. What fails finds nothing. */
    static String first(List<Fetching.Work<String>> looks) {
        CompletableFuture<String> found = new CompletableFuture<>();
        List<CompletableFuture<Void>> started = looks.stream().map(look -> start(look, found)).toList();
        CompletableFuture.allOf(started.toArray(new CompletableFuture<?>[0])).thenRun(() -> found.complete(null));
        return found.completeOnTimeout(null, SECONDS, TimeUnit.SECONDS).join();
    }

    /** On a thread of its own: those of `Fetching` do the reading. */
    private static CompletableFuture<Void> start(Fetching.Work<String> look, CompletableFuture<String> found) {
        CompletableFuture<Void> ended = new CompletableFuture<>();
        Thread thread = new Thread(() -> {
            try {
                String result = look.run();
                if (result != null) {
                    found.complete(result);
                }
            } catch (Exception error) { // who reads the file will hear of it
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

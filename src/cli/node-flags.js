/**
 * V8 flags of `serve`. By default the space of new objects shrinks to 1 MB at rest, where
 * collecting it takes a fifth of a receiver's processor time (bench/ingest), and grows to 64 MB
 * under load, which adds a quarter to memory while draining (bench/backlog). Once requests have
 * outlived a few collections, V8 allocates such objects as old ones for good, which costs another
 * tenth. By default old objects are collected for the first time at some 100 MB, and then at up to
 * four times of what is in use: half of the heap was garbage.
 */
export const serveFlags = [
  "--min-semi-space-size=16",
  "--max-semi-space-size=16",
  "--no-allocation-site-pretenuring",
  "--initial-old-space-size=32",
  "--heap-growing-percent=60",
];

/**
 * Flags for threads started later, which read many rows at leisure. With the size above, each would
 * take 30 MB for new objects. They do not change the main thread, whose heap is set up already.
 */
export const threadFlags = ["--min-semi-space-size=2", "--max-semi-space-size=2"];

/**
 * By default, glibc gives each thread a store of its own, which keeps what compiling once took: 40
 * MB together (bench/backlog).
 */
export const serveEnvironment = { MALLOC_ARENA_MAX: "2" };

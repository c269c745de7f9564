//! Pools that many scenarios use.

/// Four workers, no more and no fewer: one process of four threads, or four processes. More directives may follow.
macro_rules! four {
    ($($more:literal),* $(,)?) => {
        &[
            "MaxRequestWorkers 4",
            "prefork: StartServers 4",
            "prefork: MinSpareServers 1",
            "prefork: MaxSpareServers 4",
            "worker event: StartServers 1",
            "worker event: ThreadsPerChild 4",
            "worker event: MinSpareThreads 1",
            $($more),*
        ]
    };
}

/// One worker: one process of one thread, or one process.
macro_rules! one {
    ($($more:literal),* $(,)?) => {
        &[
            "MaxRequestWorkers 1",
            "StartServers 1",
            "prefork: MinSpareServers 1",
            "worker event: ThreadsPerChild 1",
            "worker event: MinSpareThreads 1",
            $($more),*
        ]
    };
}

pub(super) use {four, one};

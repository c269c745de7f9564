//! The core's own mechanisms: each a row with name, levels, directive and one sentence.

/// How file bytes reach the socket (`LabFileSend`, `file-send`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileSend {
    /// As EnableSendfile and EnableMMAP say.
    Auto,
    /// Map up to 4 MiB, `writev` it with the header.
    Mmap,
    /// `sendfile`, with TCP_CORK around it and the header.
    Sendfile,
    /// Read 8,000 bytes at a time, `writev` per 64 KiB.
    Read,
}

/// How a connection lingers (`LabLinger`, `linger`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LingerStyle {
    /// prefork and worker: wait 2 s for input first, read 512 bytes at a time, 30 s in all (mpm-semantics 2.1).
    WaitFirst,
    /// event: read 32,768 bytes at a time until EAGAIN, then wait 30 s (2 s after a keep-alive expiry) (4.2).
    ReadFirst,
}

/// The core's knobs with their settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoreKnobs {
    /// See [`FileSend`].
    pub file_send: FileSend,
    /// See [`LingerStyle`].
    pub linger: LingerStyle,
    /// `FlushMaxPipelined`-like: how many small answers to pipelined requests may wait for one common write.
    /// prefork and worker 4 (the fifth flushes), event 0 (mpm-semantics 8).
    pub coalesce: u32,
}

impl Default for CoreKnobs {
    fn default() -> CoreKnobs {
        CoreKnobs { file_send: FileSend::Auto, linger: LingerStyle::WaitFirst, coalesce: 4 }
    }
}

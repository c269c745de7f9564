//! What is owed to the socket: memory, mapped files, file ranges; when it blocks, and who has to wait then.

use crate::http::response::{FileBody, Piece};
use crate::server::{FileStrategy, Server};
use crate::sys;
use nix::errno::Errno;
use std::io::IoSlice;
use std::os::fd::RawFd;

/// Apache maps a file in steps of this size.
const MAP_STEP: u64 = 4 << 20;
/// Mappings start on a page.
const PAGE: u64 = 4096;
/// Shorter files are not worth a `sendfile` (AP_MIN_SENDFILE_BYTES).
const MIN_SENDFILE: u64 = 256;
/// Memory kept by an idle output.
const MEMORY_KEPT: usize = 16 << 10;

/// The output side of a connection.
#[derive(Debug, Default)]
pub(super) struct Output {
    /// Header bytes and content made in memory, not yet written from `sent` on.
    memory: Vec<u8>,
    sent: usize,
    /// The file being sent and the next of its pieces.
    file: Option<FileBody>,
    next: usize,
    current: Current,
    corked: bool,
    /// The handler is done: what is left is written without anybody waiting for it, however much it is.
    completing: bool,
    /// Answers waiting in `memory` for a common write.
    deferred: u32,
    /// Bytes ever written.
    total: u64,
}

/// The piece of a file in hand.
#[derive(Debug, Default)]
enum Current {
    #[default]
    None,
    /// Mapped; written from `from` on. `rest` is what the piece holds beyond this mapping.
    Map { map: sys::Map, from: usize, rest: (u64, u64) },
    /// To be handed to `sendfile`.
    Range { offset: u64, left: u64 },
    /// To be read into `memory`.
    Heap { offset: u64, left: u64 },
}

/// What the configuration says about sending.
#[derive(Debug, Clone, Copy)]
pub(super) struct Manner {
    strategy: FileStrategy,
    /// Whether a file too short for `sendfile` may be mapped.
    maps: bool,
    /// `FlushMaxThreshold`: more than this in memory keeps the handler, and with it a worker, until it is written; less
    /// may be finished by whoever is told that the socket is writable (mpm-semantics 4.5).
    threshold: usize,
    /// Bytes per read of a file.
    read_size: usize,
}

impl Manner {
    pub(super) fn of(server: &Server) -> Manner {
        let config = &server.config;
        Manner {
            strategy: server.file_send,
            maps: config.enable_mmap,
            threshold: config.flush_max_threshold,
            read_size: server.read_size,
        }
    }
}

/// How far a write got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// Everything is with the kernel.
    Done,
    /// The socket is full.
    Blocked {
        /// The handler is not done: too much is still in memory.
        in_handler: bool,
        /// The handler has left with this very call.
        just_left: bool,
    },
}

impl Output {
    /// Where header bytes are appended.
    pub(super) fn memory_mut(&mut self) -> &mut Vec<u8> {
        &mut self.memory
    }

    /// Bytes in memory that are not written yet.
    pub(super) fn pending(&self) -> usize {
        self.memory.len() - self.sent
    }

    /// Bytes ever written.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Queues an interim response.
    pub(super) fn interim(&mut self, bytes: &[u8]) {
        self.memory.extend_from_slice(bytes);
    }

    /// The header is in memory; `file` follows it.
    pub(super) fn begin(&mut self, file: Option<FileBody>) {
        self.file = file;
        self.next = 0;
    }

    /// Closes the file that was sent. Not part of [`Output::write`]: Apache closes it after the request is logged.
    pub(super) fn close_file(&mut self) {
        self.file = None;
    }

    /// Counts an answer that waits, and says how many do.
    pub(super) fn defer(&mut self) -> u32 {
        self.deferred += 1;
        self.deferred
    }

    /// Ready for another connection; whatever was left is dropped.
    pub(super) fn recycle(&mut self) {
        self.memory.clear();
        self.memory.shrink_to(MEMORY_KEPT);
        *self = Output { memory: std::mem::take(&mut self.memory), ..Output::default() };
    }

    /// Writes as much as the socket takes.
    ///
    /// # Errors
    /// The client is gone, or the file was cut short under us: the promised length cannot be kept, so the connection
    /// must end (EFAULT from a vanished mapping, EIO for a short read).
    pub(super) fn write(&mut self, fd: RawFd, manner: Manner) -> Result<Progress, Errno> {
        loop {
            // Memory above the threshold does not wait for the file behind it.
            if matches!(self.current, Current::None) && self.pending() <= manner.threshold {
                self.load(manner);
            }
            let blocked = match self.current {
                Current::None if self.pending() == 0 => break,
                Current::None => self.write_memory(fd)?,
                Current::Map { .. } => self.write_map(fd, manner)?,
                Current::Range { .. } => self.write_range(fd)?,
                Current::Heap { .. } => {
                    self.read_heap(manner)?;
                    self.cork_before_more(fd, self.pending(), manner);
                    self.write_memory(fd)?
                }
            };
            if blocked {
                self.uncork(fd);
                let in_handler = !self.completing && self.in_memory() > manner.threshold;
                let just_left = !in_handler && !std::mem::replace(&mut self.completing, !in_handler);
                return Ok(Progress::Blocked { in_handler, just_left });
            }
        }
        self.uncork(fd);
        self.completing = false;
        self.memory.clear();
        self.sent = 0;
        self.deferred = 0;
        Ok(Progress::Done)
    }

    /// Takes the next piece in hand.
    fn load(&mut self, manner: Manner) {
        let Some(body) = &self.file else { return };
        while let Some(piece) = body.pieces.get(self.next) {
            self.next += 1;
            match piece {
                Piece::Memory(bytes) => self.memory.extend_from_slice(bytes),
                Piece::File { length: 0, .. } => {}
                Piece::File { offset, length } => {
                    self.current = match manner.strategy {
                        FileStrategy::Sendfile if *length >= MIN_SENDFILE => {
                            Current::Range { offset: *offset, left: *length }
                        }
                        FileStrategy::Mmap => map_step(body, *offset, *length),
                        FileStrategy::Sendfile if manner.maps => map_step(body, *offset, *length),
                        FileStrategy::Sendfile | FileStrategy::Read => {
                            Current::Heap { offset: *offset, left: *length }
                        }
                    };
                    return;
                }
            }
        }
    }

    /// A write of `length` bytes behind which more of the file must still be fetched holds its last segment back, if it is
    /// made because the threshold is passed.
    fn cork_before_more(&mut self, fd: RawFd, length: usize, manner: Manner) {
        let more = match &self.current {
            Current::Map { rest, .. } => rest.1 > 0,
            Current::Heap { left, .. } => *left > 0,
            Current::None | Current::Range { .. } => false,
        };
        let more_pieces = || self.file.as_ref().is_some_and(|body| self.next < body.pieces.len());
        if length > manner.threshold && (more || more_pieces()) {
            self.cork(fd);
        }
    }

    fn cork(&mut self, fd: RawFd) {
        if !std::mem::replace(&mut self.corked, true) {
            sys::set_cork(fd, true);
        }
    }

    fn uncork(&mut self, fd: RawFd) {
        if std::mem::take(&mut self.corked) {
            sys::set_cork(fd, false);
        }
    }

    /// Memory only. True if the socket is full.
    fn write_memory(&mut self, fd: RawFd) -> Result<bool, Errno> {
        while self.pending() > 0 {
            match retry(|| sys::writev(fd, &[IoSlice::new(&self.memory[self.sent..])]))? {
                None => return Ok(true),
                Some(written) => self.account(written),
            }
        }
        Ok(false)
    }

    /// Memory and the mapping behind it, in one call.
    fn write_map(&mut self, fd: RawFd, manner: Manner) -> Result<bool, Errno> {
        if let Current::Map { map, from, .. } = &self.current {
            self.cork_before_more(fd, self.pending() + map.length() - from, manner);
        }
        loop {
            let Current::Map { map, from, rest } = &mut self.current else { return Ok(false) };
            if *from == map.length() {
                let (offset, left) = *rest;
                // Unmapped before the next step is mapped.
                self.current = Current::None;
                self.current = match &self.file {
                    Some(body) if left > 0 => map_step(body, offset, left),
                    _ => Current::None,
                };
                return Ok(false);
            }
            let head = &self.memory[self.sent..];
            let (head_length, start) = (head.len(), *from);
            match retry(|| map.writev_from(fd, head, start))? {
                None => return Ok(true),
                Some(written) => {
                    *from += written.saturating_sub(head_length);
                    self.total += written as u64;
                    self.sent += written.min(head_length);
                }
            }
        }
    }

    /// Header by `writev`, then the file by `sendfile`.
    fn write_range(&mut self, fd: RawFd) -> Result<bool, Errno> {
        if self.pending() > 0 {
            self.cork(fd);
            if self.write_memory(fd)? {
                return Ok(true);
            }
        }
        loop {
            let (Current::Range { offset, left }, Some(body)) = (&mut self.current, &self.file) else {
                return Ok(false);
            };
            if *left == 0 {
                self.current = Current::None;
                return Ok(false);
            }
            let count = usize::try_from(*left).unwrap_or(usize::MAX).min(1 << 30);
            let mut at = *offset as i64;
            match retry(|| sys::sendfile(fd, &body.file, &mut at, count))? {
                None => return Ok(true),
                Some(0) => return Err(Errno::EIO),
                Some(written) => {
                    *offset += written as u64;
                    *left -= written as u64;
                    self.total += written as u64;
                    // A part only: the socket is as good as full, which the handler, not yet gone, tries once more.
                    if *left > 0 && written < count {
                        if self.completing {
                            return Ok(true);
                        }
                        self.uncork(fd);
                    }
                }
            }
        }
    }

    /// Fills `memory` past the flush threshold from the file, in reads of Apache's size.
    fn read_heap(&mut self, manner: Manner) -> Result<(), Errno> {
        let (Current::Heap { offset, left }, Some(body)) = (&mut self.current, &self.file) else {
            return Ok(());
        };
        if self.sent > 0 {
            self.memory.drain(..self.sent);
            self.sent = 0;
        }
        while *left > 0 && self.memory.len() <= manner.threshold {
            let want = usize::try_from(*left).unwrap_or(usize::MAX).min(manner.read_size);
            let start = self.memory.len();
            self.memory.resize(start + want, 0);
            let got = sys::read_at(&body.file, &mut self.memory[start..], *offset)?;
            self.memory.truncate(start + got);
            if got == 0 {
                return Err(Errno::EIO);
            }
            *offset += got as u64;
            *left -= got as u64;
        }
        if *left == 0 {
            self.current = Current::None;
        }
        Ok(())
    }

    fn account(&mut self, written: usize) {
        self.sent += written;
        self.total += written as u64;
    }

    /// Bytes that lie in memory, mapped ones included: what of the file is not fetched yet does not count.
    fn in_memory(&self) -> usize {
        match &self.current {
            Current::Map { map, from, .. } => self.pending() + map.length() - from,
            Current::None | Current::Heap { .. } | Current::Range { .. } => self.pending(),
        }
    }
}

/// Maps the next step of a piece; a file that cannot be mapped is read instead.
fn map_step(body: &FileBody, offset: u64, length: u64) -> Current {
    let lead = offset % PAGE;
    let step = length.min(MAP_STEP - lead);
    // At most 4 MiB, so it fits.
    let mapped = (lead + step) as usize;
    match sys::Map::new(&body.file, offset - lead, mapped) {
        Ok(map) => Current::Map { map, from: lead as usize, rest: (offset + step, length - step) },
        Err(_) => Current::Heap { offset, left: length },
    }
}

/// Repeats an interrupted call; `None` says that the socket is full.
fn retry(mut call: impl FnMut() -> Result<usize, Errno>) -> Result<Option<usize>, Errno> {
    loop {
        match call() {
            Ok(written) => return Ok(Some(written)),
            Err(Errno::EAGAIN) => return Ok(None),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

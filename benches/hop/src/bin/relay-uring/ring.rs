//! A ring with provided buffers. All unsafe code of the relay is here: no call of a safe function can make the kernel
//! use memory that is not its own.

use std::{
    alloc::{Layout, alloc_zeroed, handle_alloc_error},
    collections::HashMap,
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    ptr::{self, NonNull},
    slice,
    sync::atomic::{AtomicU16, Ordering},
};

use io_uring::{
    IoUring, cqueue, opcode, squeue,
    types::{BufRingEntry, Fd},
};
use rustix::net::SocketAddrAny;

/// Submissions that fit between two turns. If there are more, they are submitted early.
const SUBMISSIONS: u32 = 256;
/// Completions that fit. The kernel keeps more, and `enter` fetches them.
const COMPLETIONS: u32 = 4096;
/// The number of provided buffers, a power of two, and the size of each in bytes.
const BUFFERS: u16 = 128;
const BUFFER: usize = 8 << 10;
const GROUP: u16 = 0;

/// One of the two directions of a pair of connections.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct WayId {
    pub pair: u32,
    /// 0 or 1.
    pub side: usize,
}

/// A completed submission.
#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    Accept,
    Connect,
    Receive,
    SendNow,
    SendLater,
    Cancel,
}

impl Kind {
    const ALL: [Self; 6] =
        [Self::Accept, Self::Connect, Self::Receive, Self::SendNow, Self::SendLater, Self::Cancel];

    /// Returns the number by which the kernel names a submission. It is given back with the completion.
    fn token(self, way: WayId) -> u64 {
        u64::from(way.pair) << 4 | (way.side as u64 & 1) << 3 | self as u64
    }

    fn of(token: u64) -> Option<(Self, WayId)> {
        let way = WayId { pair: (token >> 4) as u32, side: (token >> 3 & 1) as usize };
        Self::ALL.get((token & 7) as usize).map(|kind| (*kind, way))
    }
}

pub struct Ring {
    ring: IoUring,
    pool: Pool,
    /// The parts of sends that have several, until they are submitted. Neither grows beyond its capacity, so their
    /// entries do not move.
    vectors: Vec<libc::iovec>,
    messages: Vec<libc::msghdr>,
    /// The bytes of sends that wait for room, by their way.
    waiting: HashMap<WayId, Vec<u8>>,
    upstream: SocketAddrAny,
    pub completions: Vec<Completion>,
}

pub struct Completion {
    pub kind: Kind,
    pub way: WayId,
    /// The system call's result, or the negated number of its error.
    pub result: i32,
    /// Whether more completions of this submission will follow.
    pub more: bool,
    /// The received bytes.
    pub filled: Option<Filled>,
    /// What has been accepted.
    pub accepted: Option<OwnedFd>,
    /// What `send_later` has been given.
    pub bytes: Option<Vec<u8>>,
}

/// A provided buffer that the kernel has filled, and that belongs to the relay until it is released.
pub struct Filled {
    buffer: u16,
    len: u32,
}

impl Ring {
    /// Never freed, so that the kernel may use its memory for as long as the process exists. Fails if the kernel is
    /// older than 6.1, or does not allow io_uring.
    pub fn new(upstream: SocketAddrAny) -> io::Result<&'static mut Self> {
        let mut builder = IoUring::builder();
        builder.setup_single_issuer().setup_defer_taskrun().setup_submit_all().setup_cqsize(COMPLETIONS);
        let ring: IoUring = builder.build(SUBMISSIONS)?;
        let pool = Pool::new(&ring)?;
        Ok(Box::leak(Box::new(Self {
            ring,
            pool,
            vectors: Vec::with_capacity(BUFFERS.into()),
            messages: Vec::with_capacity(BUFFERS.into()),
            waiting: HashMap::new(),
            upstream,
            completions: Vec::new(),
        })))
    }

    /// Accepts until it fails.
    pub fn accept(&mut self, listener: &impl AsRawFd) -> io::Result<()> {
        let entry = opcode::AcceptMulti::new(fd(listener)).flags(libc::SOCK_CLOEXEC).build();
        // SAFETY: the entry refers to no memory.
        unsafe { self.push(entry, Kind::Accept, WayId { pair: 0, side: 0 }) }
    }

    pub fn connect(&mut self, socket: &impl AsRawFd, way: WayId) -> io::Result<()> {
        let address = self.upstream.as_ptr().cast();
        let entry = opcode::Connect::new(fd(socket), address, self.upstream.addr_len()).build();
        // SAFETY: the address is part of the ring, which is never freed and never moves, and does not change.
        unsafe { self.push(entry, Kind::Connect, way) }
    }

    /// Receives until the end, an error, a lack of buffers or `cancel`.
    pub fn receive(&mut self, socket: &impl AsRawFd, way: WayId) -> io::Result<()> {
        let entry = opcode::RecvMulti::new(fd(socket), GROUP).build();
        // SAFETY: the entry refers to no memory but the pool's, whose buffers are never freed. The relay reads a
        // buffer only while it has its `Filled`, and then the kernel does not write to it.
        unsafe { self.push(entry, Kind::Receive, way) }
    }

    pub fn cancel(&mut self, way: WayId) -> io::Result<()> {
        let entry = opcode::AsyncCancel::new(Kind::Receive.token(way)).build();
        // SAFETY: the entry refers to no memory.
        unsafe { self.push(entry, Kind::Cancel, way) }
    }

    /// Sends what the socket has room for, at the next `enter`. Completes only if that is not everything: with the
    /// number of bytes that were sent, or EAGAIN. `parts` must not be released before.
    ///
    /// MSG_DONTWAIT makes the kernel finish the send while it takes the submission, MSG_WAITALL makes a short one a
    /// failure, and only failures complete.
    pub fn send_now(&mut self, socket: &impl AsRawFd, parts: &[Filled], way: WayId) -> io::Result<()> {
        let flags = libc::MSG_DONTWAIT | libc::MSG_WAITALL | libc::MSG_NOSIGNAL;
        // Before the message is made, which `enter` ends.
        self.make_room()?;
        let entry = if let [part] = parts {
            opcode::Send::new(fd(socket), self.pool.start(part).as_ptr(), part.len).flags(flags).build()
        } else {
            opcode::SendMsg::new(fd(socket), self.message(parts)?).flags(flags as u32).build()
        };
        let entry = entry.flags(squeue::Flags::SKIP_SUCCESS);
        // SAFETY: the bytes are in the pool, which is never freed. The kernel copies the message and its vectors
        // when it takes the submission, and they are neither changed nor moved before that.
        unsafe { self.push(entry, Kind::SendNow, way) }
    }

    /// Returns a message of these parts, which is valid until the next `enter`.
    fn message(&mut self, parts: &[Filled]) -> io::Result<*const libc::msghdr> {
        let has_room = |ring: &Self| {
            ring.messages.len() < ring.messages.capacity()
                && parts.len() <= ring.vectors.capacity() - ring.vectors.len()
        };
        if !has_room(self) {
            self.enter(0)?;
        }
        if !has_room(self) {
            return Err(io::Error::other("more parts than buffers"));
        }
        let begun = self.vectors.len();
        self.vectors.extend(parts.iter().map(|part| libc::iovec {
            iov_base: self.pool.start(part).as_ptr().cast(),
            iov_len: part.len as usize,
        }));
        // SAFETY: all fields of `msghdr` are numbers or pointers, for which zero is a valid value.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = self.vectors[begun..].as_mut_ptr();
        message.msg_iovlen = parts.len() as _;
        self.messages.push(message);
        Ok(self.messages.last().map_or(ptr::null(), ptr::from_ref))
    }

    /// Sends all bytes, and waits for room. Completes with the number of bytes that were sent, and the bytes. Fails
    /// if another such send of this way waits.
    pub fn send_later(&mut self, socket: &impl AsRawFd, bytes: Vec<u8>, way: WayId) -> io::Result<()> {
        let flags = libc::MSG_WAITALL | libc::MSG_NOSIGNAL;
        let len = u32::try_from(bytes.len()).map_err(io::Error::other)?;
        let entry = opcode::Send::new(fd(socket), bytes.as_ptr(), len).flags(flags).build();
        if self.waiting.contains_key(&way) {
            return Err(io::Error::other("another send waits"));
        }
        self.waiting.insert(way, bytes);
        // SAFETY: the ring is never freed, and keeps the bytes unchanged until `take_in` sees its only
        // completion.
        unsafe { self.push(entry, Kind::SendLater, way) }
    }

    /// Returns the bytes of a filled buffer.
    pub fn bytes<'a>(&'a self, filled: &'a Filled) -> &'a [u8] {
        // SAFETY: the pool is never freed, the kernel has initialized `len` bytes of this buffer, and does not write
        // to it before `release` has consumed `filled`.
        unsafe { slice::from_raw_parts(self.pool.start(filled).as_ptr(), filled.len as usize) }
    }

    /// Lets the kernel fill a buffer again.
    pub fn release(&mut self, filled: Filled) {
        self.pool.provide(filled.buffer);
    }

    /// Submits everything, waits until there are `want` completions, and takes in those that are there. A signal ends
    /// the wait.
    pub fn enter(&mut self, want: usize) -> io::Result<()> {
        loop {
            match self.ring.submit_and_wait(want.saturating_sub(self.completions.len())) {
                Ok(_) => {}
                // Busy: the kernel keeps more completions than fit, which `take_in` makes room for.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EINTR | libc::EBUSY)) => {}
                Err(error) => return Err(error),
            }
            self.take_in();
            let queue = self.ring.submission();
            if queue.is_empty() && !queue.cq_overflow() {
                break;
            }
        }
        // All are submitted, so the kernel has copied them.
        self.vectors.clear();
        self.messages.clear();
        Ok(())
    }

    fn take_in(&mut self) {
        for entry in self.ring.completion() {
            let (flags, result) = (entry.flags(), entry.result());
            // All tokens are made by `push`.
            let Some((kind, way)) = Kind::of(entry.user_data()) else { continue };
            let len = u32::try_from(result).unwrap_or(0);
            let is_accepted = kind == Kind::Accept && result >= 0;
            self.completions.push(Completion {
                kind,
                way,
                result,
                more: cqueue::more(flags),
                filled: cqueue::buffer_select(flags).map(|buffer| Filled { buffer, len }),
                // SAFETY: a successful accept returns a descriptor that nothing else owns.
                accepted: is_accepted.then(|| unsafe { OwnedFd::from_raw_fd(result) }),
                bytes: if kind == Kind::SendLater { self.waiting.remove(&way) } else { None },
            });
        }
    }

    /// Makes room for a submission.
    fn make_room(&mut self) -> io::Result<()> {
        if self.ring.submission().is_full() { self.enter(0) } else { Ok(()) }
    }

    /// # Safety
    ///
    /// `kind` is what the entry does. The memory that it refers to must be valid until the kernel has completed it,
    /// except for what the kernel copies when it takes the submission: that, until `enter`.
    unsafe fn push(&mut self, entry: squeue::Entry, kind: Kind, way: WayId) -> io::Result<()> {
        self.make_room()?;
        // SAFETY: the caller's promise.
        unsafe { self.ring.submission().push(&entry.user_data(kind.token(way))) }.map_err(io::Error::other)
    }
}

/// The buffers that the kernel fills, and the queue in which it gets them.
struct Pool {
    queue: NonNull<BufRingEntry>,
    buffers: NonNull<u8>,
    /// The number of buffers that the kernel has been given so far. It wraps around.
    tail: u16,
}

impl Pool {
    /// Its memory is never freed.
    fn new(ring: &IoUring) -> io::Result<Self> {
        // The kernel wants whole pages.
        let queue = zeroed(usize::from(BUFFERS) * size_of::<BufRingEntry>(), 4096)?.cast::<BufRingEntry>();
        let buffers = zeroed(usize::from(BUFFERS) * BUFFER, 4096)?;
        // SAFETY: the length is that of the allocation. Writing maps all pages now rather than during a measurement.
        unsafe { buffers.write_bytes(1, usize::from(BUFFERS) * BUFFER) };
        // SAFETY: the queue has this number of entries, starts on a page, and is never freed.
        unsafe { ring.submitter().register_buf_ring_with_flags(queue.as_ptr() as u64, BUFFERS, GROUP, 0)? };
        let mut pool = Self { queue, buffers, tail: 0 };
        for buffer in 0..BUFFERS {
            pool.provide(buffer);
        }
        Ok(pool)
    }

    fn start(&self, filled: &Filled) -> NonNull<u8> {
        self.at(filled.buffer)
    }

    fn at(&self, buffer: u16) -> NonNull<u8> {
        let place = usize::from(buffer % BUFFERS) * BUFFER;
        // SAFETY: the buffers have BUFFERS * BUFFER bytes, which is more than `place`.
        unsafe { self.buffers.add(place) }
    }

    /// Gives a buffer to the kernel. Each buffer is either in the queue or in one `Filled`, so the queue has room.
    fn provide(&mut self, buffer: u16) {
        let address = self.at(buffer).as_ptr() as u64;
        // SAFETY: the place is below BUFFERS, the number of entries. An all-zero entry is valid. The kernel does not
        // read an entry before the tail has passed it, and the tail's field is not one that is written here.
        let entry = unsafe { self.queue.add(usize::from(self.tail % BUFFERS)).as_mut() };
        entry.set_addr(address);
        entry.set_len(BUFFER as u32);
        entry.set_bid(buffer);
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the queue's first entry, whose unused field is the tail: two aligned bytes that are written only
        // here and read only by the kernel.
        unsafe {
            let tail = BufRingEntry::tail(self.queue.as_ptr()).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail, Ordering::Release);
        }
    }
}

/// Allocates bytes that are never freed. `align` is a power of two, and `len` is not zero.
fn zeroed(len: usize, align: usize) -> io::Result<NonNull<u8>> {
    let layout = Layout::from_size_align(len, align).map_err(io::Error::other)?;
    // SAFETY: the length is not zero: all callers pass constants.
    NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(|| handle_alloc_error(layout))
}

fn fd(socket: &impl AsRawFd) -> Fd {
    Fd(socket.as_raw_fd())
}

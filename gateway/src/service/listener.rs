//! Connections, accepted up to a bound, without Nagle's delay. One more is told so in HTTP and closed: it would
//! otherwise wait unseen in the kernel's queue.

use crate::metric;
use actors::task;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;
use tracing::{debug, warn};

/// The pause after an accept failed for want of something (files, memory) that others may give back.
const PAUSE: Duration = Duration::from_millis(100);

/// How long a new connection may say nothing.
const SILENCE: Duration = Duration::from_secs(30);
/// Connections that are being told so at once; more are closed without a word.
const REFUSALS_MAX: usize = 64;
/// How long one that is told so may go on sending.
const GOODBYE: Duration = Duration::from_secs(1);

/// What one connection too many is told.
const FULL: &[u8] = b"HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/json\r\nretry-after: 1\r\n\
content-length: 140\r\nconnection: close\r\n\r\n\
{\"error\":{\"message\":\"all of limits.max_connections are in use: ask again in a moment\",\"type\":\"rate_limit_error\",\"param\":null,\"code\":\"busy\"}}";

/// A listener with a bound.
#[derive(Debug)]
pub struct Bounded {
    listener: TcpListener,
    room: Arc<Semaphore>,
    refusals: Arc<Semaphore>,
}

impl Bounded {
    /// At most `most` connections at once.
    #[must_use]
    pub fn new(listener: TcpListener, most: usize) -> Self {
        let (room, refusals) =
            (Arc::new(Semaphore::new(most)), Arc::new(Semaphore::new(REFUSALS_MAX)));
        Self { listener, room, refusals }
    }

    /// Tells a connection that there is no room, if not too many are being told already. It is let speak first, for
    /// an answer before the request is none to most clients, and what it sends is read to the end: closed over unread
    /// bytes, it would see a reset instead of the answer.
    fn tell(&self, mut stream: TcpStream) {
        let Ok(place) = Arc::clone(&self.refusals).try_acquire_owned() else { return };
        task::spawn(task::Kind::Serve, async move {
            let told = async {
                let mut unread = [0; 4_096];
                let _asked = stream.read(&mut unread).await?;
                stream.write_all(FULL).await?;
                stream.shutdown().await?;
                while stream.read(&mut unread).await? > 0 {}
                io::Result::Ok(())
            };
            // It may have gone, or be slow: it was told, or it never will be.
            let _told = tokio::time::timeout(GOODBYE, told).await;
            drop(place);
        });
    }
}

impl axum::serve::Listener for Bounded {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    // A socket that will not take the option still works.
                    let _slow = stream.set_nodelay(true);
                    match Arc::clone(&self.room).try_acquire_owned() {
                        Ok(room) => {
                            metric::connected();
                            let silence = Some(Box::pin(tokio::time::sleep(SILENCE)));
                            return (Connection { stream, silence, _room: room }, peer);
                        }
                        Err(_full) => {
                            metric::refused(metric::Limit::Connections);
                            warn!(%peer, "connection_refused_full");
                            self.tell(stream);
                        }
                    }
                }
                Err(error) => {
                    debug!(%error, "accept_failed");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that holds its place, as long as it says something soon.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    /// Until its first byte; a silent connection would hold its place for ever.
    silence: Option<Pin<Box<Sleep>>>,
    _room: OwnedSemaphorePermit,
}

impl Drop for Connection {
    fn drop(&mut self) {
        metric::disconnected();
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(ctx, buf);
        if buf.filled().len() > before {
            self.silence = None;
        }
        let silence = self.silence.as_mut().map(|sleep| sleep.as_mut().poll(ctx));
        match (&read, silence) {
            (Poll::Pending, Some(Poll::Ready(()))) => {
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
            (Poll::Pending | Poll::Ready(_), _) => read,
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(ctx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(ctx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(ctx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(ctx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refusal_says_its_own_length() {
        let text = std::str::from_utf8(FULL).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())), "{}", body.len());
    }
}

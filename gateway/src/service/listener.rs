//! Connections, accepted up to a bound, without Nagle's delay. One more is told so in HTTP and closed: it would
//! otherwise wait unseen in the kernel's queue.

use crate::metric;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::{debug, warn};

/// The pause after an accept failed for want of something (files, memory) that others may give back.
const PAUSE: Duration = Duration::from_millis(100);

/// What one connection too many is told.
const FULL: &[u8] = b"HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/json\r\nretry-after: 1\r\n\
content-length: 125\r\nconnection: close\r\n\r\n\
{\"error\":{\"message\":\"all of limits.max_connections are in use\",\"type\":\"rate_limit_error\",\"param\":null,\"code\":\"too_many_connections\"}}";

/// A listener with a bound.
#[derive(Debug)]
pub struct Bounded {
    listener: TcpListener,
    room: Arc<Semaphore>,
}

impl Bounded {
    /// At most `most` connections at once.
    #[must_use]
    pub fn new(listener: TcpListener, most: usize) -> Self {
        Self { listener, room: Arc::new(Semaphore::new(most)) }
    }
}

impl axum::serve::Listener for Bounded {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((mut stream, peer)) => {
                    // A socket that will not take the option still works.
                    let _slow = stream.set_nodelay(true);
                    match Arc::clone(&self.room).try_acquire_owned() {
                        Ok(room) => {
                            metric::connected();
                            return (Connection { stream, _room: room }, peer);
                        }
                        Err(_full) => {
                            metric::refused(metric::Limit::Connections);
                            warn!(%peer, "connection_refused_full");
                            // It fits any socket buffer: this does not wait.
                            let _told = stream.write_all(FULL).await;
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

/// A connection that holds its place.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    _room: OwnedSemaphorePermit,
}

impl Drop for Connection {
    fn drop(&mut self) {
        metric::disconnected();
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, ctx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(ctx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, ctx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
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

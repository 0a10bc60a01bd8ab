//! TLS to the source, by rustls. A connection has no channel binding (SCRAM-SHA-256-PLUS): what would stand in for the
//! server is kept out by its certificate alone.

mod verifier;

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect};
use tokio_rustls::{TlsConnector, client::TlsStream};

use self::verifier::Unverified;
use crate::settings::Trust;

/// Makes connections by TLS.
#[derive(Clone)]
pub(crate) struct Tls(TlsConnector);

/// A connector that trusts so. Whether it is used at all is up to the connection's `sslmode`.
///
/// # Errors
/// A sentence where the authorities cannot be read.
pub(crate) fn connector(trust: &Trust) -> Result<Tls, String> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone());
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    let config = match trust {
        Trust::Anyone => builder.dangerous().with_custom_certificate_verifier(Arc::new(Unverified(provider))),
        Trust::System => {
            let found = rustls_native_certs::load_native_certs();
            let mut roots = RootCertStore::empty();
            if roots.add_parsable_certificates(found.certs).0 == 0 {
                return Err("the system has no certificate authorities (Debian: ca-certificates)".to_owned());
            }
            builder.with_root_certificates(roots)
        }
        Trust::File(path) => {
            let unreadable = |error: &dyn std::fmt::Display| format!("sslrootcert {}: {error}", path.display());
            let mut roots = RootCertStore::empty();
            for certificate in CertificateDer::pem_file_iter(path).map_err(|error| unreadable(&error))? {
                let certificate = certificate.map_err(|error| unreadable(&error))?;
                roots.add(certificate).map_err(|error| unreadable(&error))?;
            }
            if roots.is_empty() {
                return Err(unreadable(&"no certificate in PEM form"));
            }
            builder.with_root_certificates(roots)
        }
    };
    Ok(Tls(Arc::new(config.with_no_client_auth()).into()))
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for Tls {
    type Stream = Stream<S>;
    type TlsConnect = Handshake;
    type Error = std::convert::Infallible;

    fn make_tls_connect(&mut self, host: &str) -> Result<Handshake, Self::Error> {
        Ok(Handshake { host: host.to_owned(), connector: self.0.clone() })
    }
}

/// A handshake with a server of this name.
pub(crate) struct Handshake {
    host: String,
    connector: TlsConnector,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for Handshake {
    type Stream = Stream<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream<S>>> + Send>>;

    fn connect(self, socket: S) -> Self::Future {
        Box::pin(async move {
            let host = ServerName::try_from(self.host).map_err(io::Error::other)?;
            Ok(Stream(self.connector.connect(host, socket).await?))
        })
    }
}

/// An encrypted connection.
pub(crate) struct Stream<S>(TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> tokio_postgres::tls::TlsStream for Stream<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Stream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Stream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_certificates_is_refused() {
        let said = connector(&Trust::File("/nowhere/ca.pem".into())).map(|_| ()).unwrap_err();
        assert!(said.starts_with("sslrootcert /nowhere/ca.pem"), "{said}");
        let empty = connector(&Trust::File(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml").into()));
        assert!(empty.map(|_| ()).unwrap_err().contains("no certificate"));
    }
}

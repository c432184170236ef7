//! Certificates generated for a test, and clients that present or trust them.

use std::{
    fs, io,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        ClientConfig, ConfigBuilder, RootCertStore, ServerConfig,
        client::WantsClientCert,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
        server::WebPkiClientVerifier,
        version::TLS12,
    },
};

use super::{proxy::Proxy, soon};

pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// The authority's own certificate, in PEM.
    pub(crate) pem: String,
}

/// A certificate and its key, in PEM.
#[derive(Clone)]
pub(crate) struct Certificate {
    pub(crate) cert: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// Issues a certificate for `127.0.0.1`, `localhost` and `up.example`.
    pub(crate) fn sign(&self) -> Certificate {
        let key = KeyPair::generate().unwrap();
        let names = ["127.0.0.1", "localhost", "up.example"].map(str::to_owned);
        let params = CertificateParams::new(names).unwrap();
        Certificate { cert: params.signed_by(&key, &self.issuer).unwrap().pem(), key: key.serialize_pem() }
    }

    /// A server configuration with a certificate from this authority. If `clients` is given, the server requires
    /// client certificates from that authority.
    pub(crate) fn server(&self, clients: Option<&Self>) -> ServerConfig {
        let provider = Arc::new(ring::default_provider());
        let own = self.sign();
        let builder = ServerConfig::builder_with_provider(provider.clone());
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(clients) => {
                let roots = Arc::new(clients.roots());
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build().unwrap();
                builder.with_client_cert_verifier(verifier)
            }
        };
        let (chain, key) = own.der();
        builder.with_single_cert(chain, key).unwrap()
    }

    /// A client configuration that trusts this authority and supports HTTP/2 and HTTP/1.1.
    pub(crate) fn client(&self) -> ClientConfig {
        trusting(self.roots()).with_no_client_auth()
    }

    /// Like [`Authority::client`], but the client presents `certificate`.
    pub(crate) fn client_with(&self, certificate: &Certificate) -> ClientConfig {
        let (chain, key) = certificate.der();
        trusting(self.roots()).with_client_auth_cert(chain, key).unwrap()
    }

    /// Like [`Authority::client`], but without TLS 1.3.
    pub(crate) fn client_of_version_1_2(&self) -> ClientConfig {
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_protocol_versions(&[&TLS12]).unwrap();
        builder.with_root_certificates(self.roots()).with_no_client_auth()
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap()).unwrap();
        roots
    }
}

impl Certificate {
    fn der(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let chain = CertificateDer::pem_slice_iter(self.cert.as_bytes()).collect::<Result<_, _>>().unwrap();
        (chain, PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap())
    }
}

pub(crate) fn trusting(roots: RootCertStore) -> ConfigBuilder<ClientConfig, WantsClientCert> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    builder.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots)
}

pub(crate) struct Files(TempDir);

impl Files {
    pub(crate) fn new(certificate: &Certificate) -> Self {
        let files = Self(TempDir::new().unwrap());
        files.write(certificate);
        files
    }

    pub(crate) fn write(&self, certificate: &Certificate) {
        self.put("cert.pem", &certificate.cert);
        self.put("key.pem", &certificate.key);
    }

    pub(crate) fn put(&self, name: &str, content: &str) -> String {
        let path = self.0.path().join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub(crate) fn table(&self, more: &str) -> String {
        let folder = self.0.path().to_str().unwrap();
        format!("[tls]\ncert = \"{folder}/cert.pem\"\nkey = \"file:{folder}/key.pem\"\n{more}\n")
    }
}

/// Connects to the proxy's first address with TLS over the socket that `wrap` returns.
pub(crate) async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
    proxy: &Proxy,
    config: ClientConfig,
    wrap: impl FnOnce(TcpStream) -> S,
) -> io::Result<TlsStream<S>> {
    let socket = TcpStream::connect(proxy.addresses[0]).await.unwrap();
    socket.set_nodelay(true).unwrap();
    handshake(Arc::new(config), wrap(socket)).await
}

pub(crate) async fn handshake<S: AsyncRead + AsyncWrite + Unpin>(
    config: Arc<ClientConfig>,
    stream: S,
) -> io::Result<TlsStream<S>> {
    let name = "localhost".try_into().unwrap();
    soon("a handshake", TlsConnector::from(config).connect(name, stream)).await
}

/// A socket that writes one byte at a time and records what it reads.
pub(crate) struct Bytewise {
    socket: TcpStream,
    read: Arc<Mutex<Vec<u8>>>,
}

impl Bytewise {
    pub(crate) fn new(socket: TcpStream, read: Arc<Mutex<Vec<u8>>>) -> Self {
        Self { socket, read }
    }
}

impl AsyncRead for Bytewise {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.socket).poll_read(cx, buffer);
        self.read.lock().unwrap().extend_from_slice(&buffer.filled()[before..]);
        polled
    }
}

impl AsyncWrite for Bytewise {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, bytes.get(..1).unwrap_or_default())
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

/// Returns the lengths of the TLS records in `bytes` (RFC 8446, section 5.1).
pub(crate) fn records(mut bytes: &[u8]) -> Vec<usize> {
    let mut lengths = Vec::new();
    while let [_, _, _, high, low, rest @ ..] = bytes {
        let length = usize::from(*high) << 8 | usize::from(*low);
        lengths.push(length);
        bytes = rest.get(length..).unwrap_or_default();
    }
    lengths
}

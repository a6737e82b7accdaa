//! The authority of a cluster and a certificate of it for each machine.
//!
//! Whoever has a certificate of the authority can become a server of the cluster, so its key goes to no machine.

use super::{MACHINES, Plan};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use std::fmt;

/// Years that certificates are good for. There is no renewal by itself: three machines get new ones together.
const YEARS: i32 = 10;
/// Days before today from which they are good: the clocks of machines differ.
const EARLIER_YEARS: i32 = 1;

/// A certificate could not be made.
#[derive(Debug, thiserror::Error)]
#[error("the certificates could not be made")]
pub struct PaperError(#[from] rcgen::Error);

/// A certificate and its key, as PEM.
#[derive(Clone)]
pub struct Paper {
    /// For everybody.
    pub certificate: String,
    /// For its owner.
    pub key: String,
}

impl fmt::Debug for Paper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Paper")
    }
}

/// The papers of a cluster.
#[derive(Debug, Clone)]
pub struct Papers {
    /// Of the authority.
    pub authority: Paper,
    /// Of each machine, in order.
    pub machines: Vec<Paper>,
}

/// Makes the papers of a plan, good from last year on. `year` is the current one.
///
/// # Errors
///
/// [`PaperError`] when a host can not stand in a certificate.
pub fn papers(plan: &Plan, year: i32) -> Result<Papers, PaperError> {
    let (from, until) =
        (date_time_ymd(year - EARLIER_YEARS, 1, 1), date_time_ymd(year + YEARS, 12, 31));
    let named = |name: &str| {
        let mut subject = DistinguishedName::new();
        subject.push(DnType::CommonName, name);
        subject
    };
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.distinguished_name = named(&format!("piton {}", plan.namespace));
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    (authority.not_before, authority.not_after) = (from, until);
    let key = KeyPair::generate()?;
    let root = Paper { certificate: authority.self_signed(&key)?.pem(), key: key.serialize_pem() };
    let issuer = Issuer::new(authority, key);
    let mut machines = Vec::with_capacity(MACHINES);
    for host in &plan.hosts {
        let mut server = CertificateParams::new(vec![host.name.clone()])?;
        server.distinguished_name = named(&host.name);
        // A server that opens a route shows it as well.
        server.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        (server.not_before, server.not_after) = (from, until);
        let key = KeyPair::generate()?;
        let certificate = server.signed_by(&key, &issuer)?.pem();
        machines.push(Paper { certificate, key: key.serialize_pem() });
    }
    Ok(Papers { authority: root, machines })
}

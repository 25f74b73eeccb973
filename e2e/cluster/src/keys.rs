//! A certificate authority of a cluster, and what it signs.

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use std::fs;
use std::path::{Path, PathBuf};

/// The authority, whose folder all keys lie in.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    dir: PathBuf,
}

/// A certificate and its key, as text.
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    /// A new one, in `dir`: `ca.crt` and `ca.key`.
    pub(crate) fn new(dir: &Path) -> Result<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, "tests");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate()?;
        write(dir, "ca.key", &key.serialize_pem())?;
        let issuer = CertifiedIssuer::self_signed(params, key)?;
        write(dir, "ca.crt", &issuer.pem())?;
        Ok(Self {
            issuer,
            dir: dir.to_path_buf(),
        })
    }

    /// Its own certificate.
    pub(crate) fn certificate(&self) -> String {
        self.issuer.pem()
    }

    /// A certificate for a server with these names and addresses, or for a client, who is `name` and in `group`.
    pub(crate) fn sign(&self, name: &str, group: Option<&str>, names: &[&str]) -> Result<Pair> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, name);
        if let Some(group) = group {
            params
                .distinguished_name
                .push(DnType::OrganizationName, group);
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Pair {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }

    /// Like [`Self::sign`], into `FILE.crt` and `FILE.key`.
    pub(crate) fn write(
        &self,
        file: &str,
        name: &str,
        group: Option<&str>,
        names: &[&str],
    ) -> Result<()> {
        let pair = self.sign(name, group, names)?;
        write(&self.dir, &format!("{file}.crt"), &pair.certificate)?;
        write(&self.dir, &format!("{file}.key"), &pair.key)
    }

    /// The key that tokens of service accounts are signed with: `sa.key` and `sa.pub`.
    pub(crate) fn write_token_key(&self) -> Result<()> {
        let key = KeyPair::generate()?;
        write(&self.dir, "sa.key", &key.serialize_pem())?;
        write(&self.dir, "sa.pub", &key.public_key_pem())
    }
}

fn write(dir: &Path, name: &str, text: &str) -> Result<()> {
    let path = dir.join(name);
    fs::write(&path, text).with_context(|| format!("Cannot write {}", path.display()))
}

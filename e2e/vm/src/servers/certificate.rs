//! A certificate for 127.0.0.1 that nobody trusts unless told to.

use crate::leash;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};

/// Files of a certificate and its private key.
#[derive(Debug, Clone)]
pub(super) struct Certificate {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

const CONFIG: &str = "[req]\nprompt = no\ndistinguished_name = name\nx509_extensions = use\n\
    [name]\nCN = 127.0.0.1\n\
    [use]\nsubjectAltName = IP:127.0.0.1\nbasicConstraints = critical, CA:FALSE\n";

/// Where the certificate lies that is made in `dir`.
pub(super) fn file(dir: &Path) -> PathBuf {
    dir.join("certificate.pem")
}

/// Makes one in `dir`, valid for two days.
pub(super) fn make(dir: &Path) -> Result<Certificate> {
    let made = Certificate {
        certificate: file(dir),
        key: dir.join("key.pem"),
    };
    let config = dir.join("openssl.cnf");
    fs::write(&config, CONFIG)?;
    let output = leash::leashed("openssl")
        .args(["req", "-x509", "-days", "2", "-noenc", "-newkey", "ec"])
        .args(["-pkeyopt", "ec_paramgen_curve:prime256v1", "-config"])
        .arg(config)
        .arg("-keyout")
        .arg(&made.key)
        .arg("-out")
        .arg(&made.certificate)
        .output()
        .context("Cannot start openssl, which makes the server's certificate")?;
    if !output.status.success() {
        bail!(
            "openssl made no certificate: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(made)
}

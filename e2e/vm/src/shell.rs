//! A machine with a shell on our terminal.

use crate::leash;
use crate::vm::Vm;
use anyhow::{Context, Result, bail};
use std::fs;
use std::process::{Command, Stdio};

impl Vm {
    /// Boots, runs `setup` (a bash script) with its output on the terminal, then a shell until it ends;
    /// returns its exit status. `files` are put into the share before.
    ///
    /// # Errors
    /// When the machine does not come up, or ends without the shell having ended.
    pub fn shell(self, setup: &str, files: &[(&std::path::Path, &str)]) -> Result<i32> {
        let place = self.place()?;
        let own = place.share.join(".vm");
        fs::create_dir_all(&own)?;
        fs::write(own.join("setup.sh"), setup)?;
        for (from, name) in files {
            fs::copy(from, place.share.join(name))
                .with_context(|| format!("Cannot copy {}", from.display()))?;
        }
        let status_file = own.join("shell-status");
        let _ = fs::remove_file(&status_file);

        let mut more = String::from(" vm.shell");
        if let Ok(term) = std::env::var("TERM")
            && term.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        {
            more.push_str(&format!(" vm.term={term}"));
        }
        if let Some((rows, cols)) = stty(&["size"]).as_deref().and_then(|s| s.split_once(' '))
            && rows != "0"
        {
            more.push_str(&format!(" vm.rows={rows} vm.cols={cols}"));
        }
        let saved = stty(&["-g"]);
        let mut child = leash::spawn(self.machine(&place, &more, true)?.command()?)?;
        let ended = child.wait();
        // QEMU puts the terminal into raw mode, and cannot put it back when it was killed.
        if let Some(saved) = saved {
            stty(&[&saved]);
        }
        let ended = ended?;
        match fs::read_to_string(&status_file)
            .ok()
            .and_then(|s| s.trim().parse().ok())
        {
            Some(code) => Ok(code),
            None => bail!("The machine ended without its shell having ended (QEMU: {ended})"),
        }
    }
}

/// Output of `stty` on our terminal; none when there is no terminal.
fn stty(args: &[&str]) -> Option<String> {
    let out = Command::new("stty")
        .args(args)
        .stdin(Stdio::inherit())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    out.status
        .success()
        .then(|| String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

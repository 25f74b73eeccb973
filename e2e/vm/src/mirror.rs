//! Which Debian mirror to take packages from: the one that the host itself uses, unless told otherwise.

use std::path::Path;

/// `$ROCFERRY_DEBIAN_MIRROR`, else the first Debian archive in the host's apt sources, else none (then
/// mmdebstrap's own default applies).
pub(crate) fn debian_mirror() -> Option<String> {
    if let Ok(uri) = std::env::var("ROCFERRY_DEBIAN_MIRROR")
        && !uri.is_empty()
    {
        return Some(uri);
    }
    let mut files = vec![Path::new("/etc/apt/sources.list").to_path_buf()];
    let mut more: Vec<_> = std::fs::read_dir("/etc/apt/sources.list.d")
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.path())
        .collect();
    more.sort();
    files.extend(more);
    let found = files.iter().find_map(|file| {
        let text = std::fs::read_to_string(file).ok()?;
        match file.extension()?.to_str()? {
            "list" => from_lines(&text),
            "sources" => from_deb822(&text),
            _ => None,
        }
    })?;
    // Cloud images name a file that lists mirrors.
    match found.strip_prefix("mirror+file:") {
        Some(file) => {
            let list = std::fs::read_to_string(Path::new("/").join(file.trim_start_matches('/')));
            let text = list.ok()?;
            text.lines()
                .find_map(|l| l.split_whitespace().next().map(str::to_owned))
        }
        None => Some(found),
    }
}

/// True for a source that is Debian's main archive: not its security archive, and nobody else's.
fn is_main_archive(uri: &str, suites: &[&str], components: &[&str]) -> bool {
    const SUITES: [&str; 9] = [
        "stable", "testing", "unstable", "sid", "bullseye", "bookworm", "trixie", "forky", "duke",
    ];
    let scheme_known = ["http://", "https://", "file:", "mirror+file:"]
        .iter()
        .any(|s| uri.starts_with(s));
    scheme_known
        && !uri.contains("security")
        && components.contains(&"main")
        && suites.iter().any(|s| SUITES.contains(s))
}

/// One-line format: `deb [options] URI SUITE COMPONENT...`
fn from_lines(text: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let line = line.split('#').next().unwrap_or_default().trim();
        let rest = line.strip_prefix("deb")?;
        let rest = rest
            .starts_with([' ', '\t', '['])
            .then(|| rest.trim_start())?;
        let rest = match rest.strip_prefix('[') {
            Some(options) => options.split_once(']')?.1,
            None => rest,
        };
        let mut words = rest.split_whitespace();
        let (uri, suite) = (words.next()?, words.next()?);
        let components: Vec<&str> = words.collect();
        is_main_archive(uri, &[suite], &components).then(|| uri.trim_end_matches('/').to_owned())
    })
}

/// Stanzas of `Key: values`, continued on indented lines.
fn from_deb822(text: &str) -> Option<String> {
    text.split("\n\n").find_map(|stanza| {
        let (mut uris, mut suites, mut components) = (Vec::new(), Vec::new(), Vec::new());
        let (mut types, mut enabled) = (Vec::new(), true);
        let mut key = String::new();
        for line in stanza.lines().filter(|l| !l.starts_with('#')) {
            let values = match line.split_once(':') {
                Some((k, v)) if !line.starts_with([' ', '\t']) => {
                    key = k.trim().to_ascii_lowercase();
                    v
                }
                _ => line,
            };
            let values = values.split_whitespace();
            match key.as_str() {
                "types" => types.extend(values),
                "uris" => uris.extend(values),
                "suites" => suites.extend(values),
                "components" => components.extend(values),
                "enabled" => enabled = !values.into_iter().any(|v| v == "no"),
                _ => {}
            }
        }
        if !enabled || !types.contains(&"deb") {
            return None;
        }
        let uri = uris
            .into_iter()
            .find(|uri| is_main_archive(uri, &suites, &components))?;
        Some(uri.trim_end_matches('/').to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_sources() {
        let text = "# deb http://old.example/debian bookworm main\n\
                    deb-src http://src.example/debian bookworm main\n\
                    deb https://other.example/apt stable extra\n\
                    deb http://sec.example/debian-security bookworm-security main\n\
                    deb [arch=amd64 signed-by=/k.gpg] http://m.example/debian/ bookworm main contrib\n";
        assert_eq!(from_lines(text).as_deref(), Some("http://m.example/debian"));
        assert_eq!(
            from_lines("deb http://archive.example/ubuntu noble main"),
            None
        );
        assert_eq!(from_lines(""), None);
    }

    #[test]
    fn deb822_sources() {
        let text = "Types: deb\nURIs: http://sec.example/debian-security\n\
                    Suites: trixie-security\nComponents: main\n\n\
                    Enabled: no\nTypes: deb\nURIs: http://off.example/debian\nSuites: trixie\n\
                    Components: main\n\n\
                    Types: deb deb-src\n# a remark: here\nURIs: http://m.example/debian\n\
                    Suites: trixie\n trixie-updates\nComponents: main\nSigned-By: /k.pgp\n";
        assert_eq!(
            from_deb822(text).as_deref(),
            Some("http://m.example/debian")
        );
        assert_eq!(
            from_deb822("Types: deb\nURIs: http://u.example/ubuntu\nSuites: noble\n"),
            None
        );
    }
}

//! Opens reports in headless Chromium, where it is installed: no console error, every drawing visible, no sideways scrolling.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Chromium, from PATH.
pub fn chromium() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join("chromium")).find(|file| file.is_file())
}

/// What the browser made of a page.
pub struct Seen {
    /// The document after loading.
    pub dom: String,
    /// What it said on its error stream.
    pub log: String,
}

impl Seen {
    /// Errors and warnings of the page's console.
    pub fn console_errors(&self) -> Vec<&str> {
        self.log.lines().filter(|line| line.contains("CONSOLE")).collect()
    }
}

/// Loads `page` and returns the document. A browser that hangs is stopped by `timeout` and fails the test.
pub fn open(browser: &Path, page: &Path) -> Seen {
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new("timeout")
        .args(["--kill-after=5", "120"])
        .arg(browser)
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args([
            "--allow-file-access-from-files",
            "--window-size=1400,1000",
            "--enable-logging=stderr",
            "--v=0",
        ])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg("--dump-dom")
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    let seen = Seen {
        dom: String::from_utf8_lossy(&output.stdout).into_owned(),
        log: String::from_utf8_lossy(&output.stderr).into_owned(),
    };
    assert!(output.status.success() && seen.dom.contains("</html>"), "the browser failed: {}", seen.log);
    seen
}

/// Shows `report` in a frame `width` wide (a window cannot be as narrow as a phone) and measures it from outside: the
/// report itself has no script. Returns the measurements, and what the browser said meanwhile.
pub fn probe(browser: &Path, report: &Path, width: u32) -> (Value, Seen) {
    let wrapper = report.with_file_name(format!("probe-{width}.html"));
    let name = report.file_name().unwrap().to_str().unwrap();
    let page = format!(
        r#"<!doctype html><html><body>
<iframe id="frame" src="{name}" style="border:0;width:{width}px;height:900px"></iframe><pre id="probe"></pre>
<script>
addEventListener("load", () => {{
  const page = document.getElementById("frame").contentDocument;
  const figures = [...page.querySelectorAll("figure.plot")].map(figure => ({{
    id: figure.id,
    drawings: [...figure.querySelectorAll("svg[role=img]")].map(svg => {{
      const box = svg.getBoundingClientRect();
      return [box.width, box.height, box.left, box.right];
    }}),
  }}));
  const root = page.documentElement;
  const probe = {{ figures, scroll: root.scrollWidth, client: root.clientWidth, title: page.title }};
  document.getElementById("probe").textContent = btoa(JSON.stringify(probe));
}});
</script></body></html>"#
    );
    std::fs::write(&wrapper, page).unwrap();
    let seen = open(browser, &wrapper);
    let encoded = seen.dom.split_once("<pre id=\"probe\">").unwrap().1.split_once("</pre>").unwrap().0;
    (serde_json::from_slice(&base64(encoded)).expect("the probe is JSON"), seen)
}

/// Decodes base64, which carries the measurements through the document untouched by HTML escapes.
fn base64(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut held, mut bits) = (Vec::new(), 0u32, 0);
    for digit in text.bytes().filter_map(|byte| DIGITS.iter().position(|digit| *digit == byte)) {
        held = (held << 6 | digit as u32) & 0xFFFF;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((held >> bits) as u8);
        }
    }
    bytes
}

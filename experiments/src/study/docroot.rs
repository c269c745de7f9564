//! The document root of a study: one file of real, incompressible-looking text per size.

use crate::random::Random;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// The path under which the file of `size` bytes is asked for.
pub fn url_path(size: u64) -> String {
    format!("/file-{size}.html")
}

/// Writes the files into `root`, which exists. Always the same bytes, readable for the account servers run as.
pub fn write(root: &Path, sizes: &[u64]) -> io::Result<()> {
    fs::set_permissions(root, fs::Permissions::from_mode(0o755))?;
    for &size in sizes {
        let path = root.join(&url_path(size)[1..]);
        let mut random = Random::new(size);
        let letters = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 \n";
        let content: Vec<u8> = (0..size).map(|_| letters[random.below(letters.len())]).collect();
        fs::write(&path, content)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644))?;
    }
    Ok(())
}

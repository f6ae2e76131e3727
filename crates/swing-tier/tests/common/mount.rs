//! A file system of a test's own, mounted by root over a loop device.

use std::process::Command;
use std::time::Duration;

pub fn is_root() -> bool {
    // SAFETY: asks for a number.
    unsafe { libc::geteuid() == 0 }
}

/// A small ext4 file system over a loop device, unmounted at the end.
pub struct Mount(tempfile::TempDir);

impl Mount {
    pub fn new(megabytes: u64) -> Result<Self, String> {
        if !is_root() {
            return Err("mounting needs root".to_owned());
        }
        let folder = super::on_disk();
        let image = folder.path().join("image");
        let file = std::fs::File::create(&image).unwrap();
        file.set_len(megabytes << 20).unwrap();
        std::fs::create_dir(folder.path().join("mounted")).unwrap();
        let run = |program: &str, arguments: &[&str]| {
            let mut command = Command::new(program);
            let output = command.current_dir(folder.path()).args(arguments).output();
            match output {
                Ok(output) if output.status.success() => Ok(()),
                Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
                Err(error) => Err(format!("{program}: {error}")),
            }
        };
        run("mkfs.ext4", &["-q", "-F", "-m", "0", "image"])?;
        run("mount", &["-o", "loop", "image", "mounted"])?;
        Ok(Mount(folder))
    }

    pub fn path(&self) -> std::path::PathBuf {
        self.0.path().join("mounted")
    }

    /// Unmounts and mounts again: the file system recovers from its journal.
    pub fn cycle(&self) {
        let run = |program: &str, arguments: &[&str]| {
            let status = Command::new(program).current_dir(self.0.path()).args(arguments).status();
            status.unwrap().success()
        };
        // Threads that read and write let go of their files a moment after their queue has ended.
        let unmounted = (0..100).any(|_| {
            let done = run("umount", &["mounted"]);
            std::thread::sleep(Duration::from_millis(if done { 0 } else { 50 }));
            done
        });
        assert!(unmounted && run("mount", &["-o", "loop", "image", "mounted"]));
    }

    pub fn remount(&self, options: &str) {
        let status = Command::new("mount").args(["-o", options]).arg(self.path()).status();
        assert!(status.unwrap().success());
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

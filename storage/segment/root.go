package segment

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// prepare makes the root and its folders for the owner alone and returns the
// root with every link above it resolved. A link at the root or below it is
// refused: it would let somebody else choose where bytes go. Links above it
// (/tmp on macOS) are the system's business.
func prepare(dir string) (root string, err error) {
	bad := func(what, hint string, err error) error {
		return &Error{Op: "open", Path: dir, What: what, Hint: hint, Err: err}
	}
	if !filepath.IsAbs(dir) {
		return "", bad("the folder is not given from the root of the disk, so it would depend on where Holdfast was started", "write the full path in kv.disk.directory", nil)
	}
	dir = filepath.Clean(dir)
	if err := checkNew(dir); err != nil {
		return "", err
	}
	parent, err := makeParents(filepath.Dir(dir))
	if err != nil {
		return "", bad("the folder above cannot be made", "make it writable, or choose another kv.disk.directory", err)
	}
	root = filepath.Join(parent, filepath.Base(dir))
	for _, d := range []string{root, filepath.Join(root, packDir), filepath.Join(root, manifestDir), filepath.Join(root, quarantineDir)} {
		if err := ownFolder(d); err != nil {
			return "", err
		}
		if d == root {
			if name, far := remote(root); far {
				return "", bad("it is on "+name+", where locks and syncs do not do what they say", "choose a folder on a disk of this machine", nil)
			}
		}
	}
	return root, nil
}

// checkNew refuses a folder that holds other things: Holdfast deletes what it
// finds in its own. Without root.json nothing was stored yet, so there is
// nothing but what the making of a root leaves when it is stopped; a lock or a
// CACHEDIR.TAG alone is what other programs have too.
func checkNew(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // not there, or for ownFolder to complain about
	}
	if slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == rootFile }) {
		return nil
	}
	for _, e := range entries {
		inside, _ := os.ReadDir(filepath.Join(dir, e.Name())) // none in a file
		if !ours(e.Name()) || e.IsDir() && len(inside) > 0 {
			return &Error{Op: "open", Path: dir, What: "the folder holds other files", Hint: "choose an empty or a new one for kv.disk.directory"}
		}
	}
	return nil
}

// ours reports whether a name at the top of a root is one of the store's. A
// stop while a root is made may leave any of them without root.json.
func ours(name string) bool {
	switch name {
	case rootFile, lockName, tagFile, packDir, manifestDir, quarantineDir:
		return true
	}
	return strings.HasPrefix(name, "."+tagFile) || strings.HasPrefix(name, "."+rootFile)
}

// makeParents makes what is missing above the root below the deepest folder
// there is, and returns it resolved.
func makeParents(dir string) (string, error) {
	if resolved, err := filepath.EvalSymlinks(dir); err == nil {
		return resolved, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if info, err := os.Lstat(dir); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return "", errors.New("a link that leads nowhere: " + dir)
	}
	up, err := makeParents(filepath.Dir(dir))
	if err != nil {
		return "", err
	}
	made := filepath.Join(up, filepath.Base(dir))
	if err := os.Mkdir(made, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return made, nil
}

// ownFolder makes one folder, refuses a link or a file in its place, and closes
// it to others.
func ownFolder(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return &Error{Op: "open", Path: dir, What: "the folder cannot be made", Err: err, Hint: "make the folder above writable, or choose another kv.disk.directory"}
	}
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return &Error{Op: "open", Path: dir, What: "the folder cannot be looked at", Err: err, Hint: "choose another kv.disk.directory"}
	case linked(info):
		return refuseLink(dir)
	case !info.IsDir():
		return &Error{Op: "open", Path: dir, What: "there is a file where a folder should be", Hint: "move it away, or choose another kv.disk.directory"}
	}
	if err := restrict(dir); err != nil {
		return &Error{Op: "open", Path: dir, What: "the folder cannot be closed to other users, and it holds what was said", Err: err,
			Hint: "choose a kv.disk.directory that you own, on a disk that knows permissions"}
	}
	return nil
}

func refuseLink(path string) error {
	return &Error{Op: "open", Path: path, What: "it is a link, and the cache writes through none", Hint: "replace it by a real folder, or choose another kv.disk.directory"}
}

// linked reports links of every kind; on Windows junctions and mount points
// come as irregular files.
func linked(info fs.FileInfo) bool {
	return info.Mode()&fs.ModeSymlink != 0 || runtime.GOOS == "windows" && info.Mode()&fs.ModeIrregular != 0
}

// A kind of file system that is refused, by the magic number of Linux. FUSE is
// refused as a whole: its number cannot tell sshfs from a local one.
type farMagic struct {
	magic uint32
	name  string
}

func farMagics() []farMagic {
	return []farMagic{
		{0x6969, "NFS"}, {0xFF534D42, "CIFS"}, {0xFE534D42, "SMB2"}, {0x517B, "SMB"}, {0x65735546, "FUSE"},
		{0x5346414F, "AFS"}, {0x6B414653, "AFS (kAFS)"}, {0x00C36400, "Ceph"}, {0x564C, "NCP"}, {0x73757245, "Coda"},
		{0x01021997, "9P"}, {0x0BD00BD0, "Lustre"}, {0x47504653, "GPFS"}, {0x01161970, "GFS2"}, {0x7461636F, "OCFS2"},
		{0x786F4256, "a VirtualBox share"}, {0x19830326, "BeeGFS"},
	}
}

func farByMagic(magic uint32) (name string, far bool) {
	for _, m := range farMagics() {
		if m.magic == magic {
			return m.name, true
		}
	}
	return "", false
}

// farByName does the same for systems that name the kind.
func farByName(kind string) (name string, far bool) {
	for _, k := range []string{"nfs", "smbfs", "cifs", "afpfs", "webdav", "ftp", "fuse", "osxfuse", "macfuse"} {
		if strings.HasPrefix(strings.ToLower(kind), k) {
			return kind, true
		}
	}
	return "", false
}

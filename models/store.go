package models

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/gofrs/flock"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/short"
)

// Store is a folder with the networks of a user:
//
//	NAME/VERSION/manifest.json
//	NAME/VERSION/model.safetensors   or model.onnx
//
// Versions are numbers from 1. Add writes a version's folder under a temporary name and then renames it, which fails if the version exists.
// So any number of processes may add and read concurrently. A process locks its temporary folder; if the process is killed, the next process
// removes the folder. Versions share no files, and files never change once written. Remove first renames a version's folder, so that a
// version exists completely or not at all.
type Store struct{ dir string }

const (
	manifestFile   = "manifest.json"
	manifestFormat = 1 // increased when older programs would misread the manifest

	maxManifest = 1 << 20
	maxModel    = 1 << 30
	maxName     = 64
	maxVersion  = 1 << 30

	temporary = ".new-" // prefix of folders that are being written or removed
)

// Names of models' files: evald's own networks, and ONNX files.
const (
	OwnFile  = "model.safetensors"
	ONNXFile = "model.onnx"
)

var modelFiles = []string{OwnFile, ONNXFile}

// storedManifest is the manifest.json of one version.
type storedManifest struct {
	Format int `json:"format"`
	Entry
}

// UserStore returns the store in the folder $EVALD_MODELS or, without this variable, in evald/models in the user's data folder
// ($XDG_DATA_HOME, or ~/.local/share). The folder is created when the first model is added.
func UserStore() (Store, error) {
	if dir := os.Getenv("EVALD_MODELS"); dir != "" {
		return Store{dir}, nil
	}
	if data := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(data) {
		return Store{filepath.Join(data, "evald", "models")}, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return Store{}, fmt.Errorf("model store: %w: set EVALD_MODELS to a folder", err)
	}
	return Store{filepath.Join(home, ".local", "share", "evald", "models")}, nil
}

// Dir returns the store's folder.
func (s Store) Dir() string { return s.dir }

// ParseRef splits "mine@3" into name and version. Without a version, it returns 0, which means the newest.
func ParseRef(ref string) (name string, version int, err error) {
	name, text, versioned := strings.Cut(ref, "@")
	if err := checkName(name); err != nil {
		return "", 0, err
	}
	if versioned {
		version, err = strconv.Atoi(text)
		if err != nil || strconv.Itoa(version) != text || version < 1 || version > maxVersion {
			return "", 0, fmt.Errorf("model %s: version %s is not a number from 1", short.Quote(ref), short.Quote(text))
		}
	}
	return name, version, nil
}

// goodName matches names that are valid names of folders on every system and have no special meaning in a shell.
var goodName = regexp.MustCompile(fmt.Sprintf(`^[A-Za-z0-9][A-Za-z0-9._-]{0,%d}$`, maxName-1))

func checkName(name string) error {
	if !goodName.MatchString(name) {
		return fmt.Errorf("model name %.100q: want 1 to %d letters, digits, dots, _ and -, beginning with a letter or digit", name, maxName)
	}
	return nil
}

// List returns all models of the store, sorted by name and version. It leaves out damaged folders; the error names them and says what to do.
// A store that does not exist is empty.
func (s Store) List() ([]Entry, error) {
	folders, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("model store: %w", err)
	}
	var entries []Entry
	var wrong []error
	for _, folder := range folders {
		if checkName(folder.Name()) != nil || !folder.IsDir() {
			continue // not a model's folder
		}
		versions, err := s.versions(folder.Name())
		wrong = append(wrong, err)
		for _, version := range versions {
			e, err := s.entry(folder.Name(), version)
			wrong = append(wrong, err)
			if err == nil {
				entries = append(entries, e)
			}
		}
	}
	return entries, errors.Join(wrong...)
}

// Find returns the model with a reference, "mine" (its newest version) or "mine@2"; ok is false if there is none. An error is about an invalid
// reference or manifest.
func (s Store) Find(ref string) (e Entry, ok bool, err error) {
	name, version, err := ParseRef(ref)
	if err != nil {
		return Entry{}, false, err
	}
	versions, err := s.versions(name)
	if err != nil {
		return Entry{}, false, err
	}
	version = cmp.Or(version, newest(versions))
	if !slices.Contains(versions, version) {
		return Entry{}, false, nil
	}
	e, err = s.entry(name, version)
	return e, err == nil, err
}

// Path returns the path of an entry's model file.
func (s Store) Path(e Entry) string { return filepath.Join(s.folder(e.Name, e.Version), e.File) }

// Read returns an entry's file after checking its checksum.
func (s Store) Read(e Entry) ([]byte, error) {
	file, err := durable.ReadFile(s.Path(e), maxModel)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w: %s", e.Ref(), err, s.wayOut(e.Name, e.Version))
	}
	if err := e.verify(file); err != nil {
		return nil, fmt.Errorf("%w: the file is damaged: %s", err, s.wayOut(e.Name, e.Version))
	}
	return file, nil
}

// Add stores a file under e.Name as the next version, and returns the entry with version and checksum. e.File is OwnFile (the default) or
// ONNXFile. If the newest version is undamaged and has the same bytes, rules and note, Add returns its entry and adds nothing; added is then
// false.
func (s Store) Add(e Entry, file []byte) (stored Entry, added bool, err error) {
	if err := checkName(e.Name); err != nil {
		return Entry{}, false, err
	}
	if len(file) > maxModel {
		return Entry{}, false, fmt.Errorf("model %q has %d bytes, may have %d", e.Name, len(file), maxModel)
	}
	s.removeAbandoned(e.Name)
	e.File, e.SHA256, e.Rules = cmp.Or(e.File, OwnFile), checksum(file), append([]string{}, e.Rules...)
	last, ok, err := s.Find(e.Name)
	if err == nil && ok && last.SHA256 == e.SHA256 && last.Note == e.Note && slices.Equal(last.Rules, e.Rules) {
		if _, err := s.Read(last); err == nil { // if the newest version is damaged, a new one replaces it
			return last, false, nil
		}
	}
	parent := filepath.Join(s.dir, e.Name)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return Entry{}, false, s.cannotWrite(err)
	}
	folder, done, err := makeTemporary(parent)
	if err != nil {
		return Entry{}, false, s.cannotWrite(err)
	}
	defer done() // after success there is nothing to remove
	if err := errors.Join(os.Chmod(folder, 0o755), durable.WriteFile(filepath.Join(folder, e.File), file)); err != nil {
		return Entry{}, false, s.cannotWrite(err)
	}
	stored, err = s.claim(e, folder)
	return stored, err == nil, err
}

// claim renames a temporary folder to the next free version.
func (s Store) claim(e Entry, folder string) (Entry, error) {
	for {
		versions, err := s.versions(e.Name)
		if err != nil {
			return Entry{}, err
		}
		e.Version = newest(versions) + 1
		text, err := json.MarshalIndent(storedManifest{manifestFormat, e}, "", "\t")
		if err != nil {
			return Entry{}, err
		}
		if err := durable.WriteFile(filepath.Join(folder, manifestFile), append(text, '\n')); err != nil {
			return Entry{}, s.cannotWrite(err)
		}
		if err = os.Rename(folder, s.folder(e.Name, e.Version)); err == nil {
			return e, durable.SyncDir(filepath.Join(s.dir, e.Name))
		}
		if _, taken := os.Stat(s.folder(e.Name, e.Version)); taken != nil { // otherwise another process has just taken this version: try the next
			return Entry{}, s.cannotWrite(err)
		}
	}
}

// Removed is the result of Remove.
type Removed struct {
	Refs  []string // "mine@1", "mine@2", in ascending order
	Bytes int64    // of their files
}

// Remove removes a version, "mine@2", or all versions of a name, "mine", including damaged ones. If the newest version is removed, the next
// model added gets its number again. If there is no such model, the error lists the existing ones. A concurrent Add of the same name may
// fail.
func (s Store) Remove(ref string) (Removed, error) {
	name, version, err := ParseRef(ref)
	if err != nil {
		return Removed{}, err
	}
	s.removeAbandoned(name)
	versions, err := s.versions(name)
	if err != nil {
		return Removed{}, err
	}
	parent, folder := s.dir, filepath.Join(s.dir, name)
	if version > 0 {
		parent, folder = folder, s.folder(name, version)
		versions = slices.DeleteFunc(versions, func(v int) bool { return v != version })
	}
	if len(versions) == 0 {
		return Removed{}, fmt.Errorf("model %s is not in the store %s, which has: %s", short.Quote(ref), s.dir, cmp.Or(s.Names(), "nothing"))
	}
	var r Removed
	for _, v := range versions {
		r.Refs = append(r.Refs, Entry{Name: name, Version: v}.Ref())
		r.Bytes += s.size(name, v)
	}
	gone, done, err := makeTemporary(parent)
	if err != nil {
		return Removed{}, s.cannotWrite(err)
	}
	defer done()
	if err := os.Rename(folder, filepath.Join(gone, "removed")); err != nil {
		return Removed{}, s.cannotWrite(err)
	}
	if err := errors.Join(durable.SyncDir(parent), os.RemoveAll(gone)); err != nil {
		return r, fmt.Errorf("model store: %s cannot be used any more, but its files are still there: %w", strings.Join(r.Refs, ", "), err)
	}
	return r, nil
}

// Names returns a list of the store's models, for error messages: "mine@1, mine@2".
func (s Store) Names() string {
	entries, _ := s.List() // damaged models may be missing in the list
	var refs []string
	for _, e := range entries {
		refs = append(refs, e.Ref())
	}
	return strings.Join(refs, ", ")
}

// size returns the total size of a version's files in bytes.
func (s Store) size(name string, version int) (bytes int64) {
	for _, file := range append([]string{manifestFile}, modelFiles...) {
		if info, err := os.Stat(filepath.Join(s.folder(name, version), file)); err == nil {
			bytes += info.Size()
		}
	}
	return bytes
}

func (s Store) cannotWrite(err error) error {
	return fmt.Errorf("model store: %w: set EVALD_MODELS to a folder that can be written", err)
}

// wayOut returns the advice for a damaged version.
func (s Store) wayOut(name string, version int) string {
	return fmt.Sprintf("remove the folder %s, or import the model again", s.folder(name, version))
}

func (s Store) folder(name string, version int) string {
	return filepath.Join(s.dir, name, strconv.Itoa(version))
}

// versions returns the versions of a name in ascending order.
func (s Store) versions(name string) ([]int, error) {
	folders, err := os.ReadDir(filepath.Join(s.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("model store: %w", err)
	}
	var versions []int
	for _, f := range folders {
		if v, err := strconv.Atoi(f.Name()); err == nil && strconv.Itoa(v) == f.Name() && v >= 1 && v <= maxVersion {
			versions = append(versions, v)
		}
	}
	slices.Sort(versions)
	return versions, nil
}

// newest returns the highest version, 0 if there is none.
func newest(versions []int) int { return slices.Max(append(versions, 0)) }

// entry reads the manifest of a version.
func (s Store) entry(name string, version int) (Entry, error) {
	text, err := durable.ReadFile(filepath.Join(s.folder(name, version), manifestFile), maxManifest)
	var e Entry
	if err == nil {
		e, err = parseManifest(text)
	}
	if err == nil && (e.Name != name || e.Version != version) {
		err = fmt.Errorf("its manifest is that of %s", e.Ref())
	}
	if err != nil {
		return Entry{}, fmt.Errorf("model %s@%d: %w: %s", name, version, err, s.wayOut(name, version))
	}
	return e, nil
}

func parseManifest(text []byte) (Entry, error) {
	var m storedManifest
	switch err := json.Unmarshal(text, &m); {
	case m.Format > manifestFormat: // Format is the first field, so it is decoded even if a later one does not fit
		return Entry{}, fmt.Errorf("%s is of format %d, this evald reads %d: use a newer evald", manifestFile, m.Format, manifestFormat)
	case err != nil:
		return Entry{}, fmt.Errorf("%s: %s", manifestFile, short.Text(err.Error()))
	case m.Format < 1:
		return Entry{}, fmt.Errorf("%s: format is %d, want %d", manifestFile, m.Format, manifestFormat)
	case !slices.Contains(modelFiles, m.File):
		return Entry{}, fmt.Errorf("%s: file is %s, want %s", manifestFile, short.Quote(m.File), strings.Join(modelFiles, " or "))
	case len(m.SHA256) != 64:
		return Entry{}, fmt.Errorf("%s: sha256 is %s, want 64 hexadecimal digits", manifestFile, short.Quote(m.SHA256))
	}
	return m.Entry, checkName(m.Name)
}

var errInUse = errors.New("another process is using it")

// makeTemporary creates and locks a temporary folder. done removes the folder, unless it was renamed, and unlocks it.
func makeTemporary(parent string) (folder string, done func(), err error) {
	for {
		if folder, err = os.MkdirTemp(parent, temporary); err != nil {
			return "", nil, err
		}
		switch lock, err := lockFolder(folder); {
		case err == nil:
			return folder, func() { _ = errors.Join(os.RemoveAll(folder), lock.Close()) }, nil
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errInUse): // this file system has no locks, so no process removes abandoned folders either
			return folder, func() { _ = os.RemoveAll(folder) }, nil
		} // another process removed the new folder as abandoned before it was locked
	}
}

// lockFolder locks a folder and checks that it still exists.
func lockFolder(folder string) (*flock.Flock, error) {
	if runtime.GOOS == "windows" { // Windows can lock only files, and cannot rename open folders
		return nil, errors.ErrUnsupported
	}
	lock := flock.New(folder, flock.SetFlag(os.O_RDONLY))
	switch locked, err := lock.TryLock(); {
	case err != nil:
		return nil, err
	case !locked:
		return nil, errInUse
	}
	if _, err := os.Stat(folder); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// removeAbandoned removes temporary folders of killed processes, in the store and under a name. It ignores errors, which only waste disk
// space.
func (s Store) removeAbandoned(name string) {
	for _, parent := range []string{s.dir, filepath.Join(s.dir, name)} {
		left, _ := filepath.Glob(filepath.Join(parent, temporary+"*"))
		for _, folder := range left {
			if lock, err := lockFolder(folder); err == nil {
				_ = errors.Join(os.RemoveAll(folder), lock.Close())
			}
		}
	}
}

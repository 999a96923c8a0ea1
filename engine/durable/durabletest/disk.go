package durabletest

import (
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"time"
)

// Disk is a simulated file system in memory: a journalling POSIX disk with the worst behaviour that the standard allows. The effects of its
// faults depend only on Random, so that a seed repeats a run. A Disk is for one goroutine.
//
// Written bytes are durable after Sync of their file, and names (create, rename, remove) after SyncDir of their folder. A power cut keeps
// all, some or none of a file's other bytes, and may replace the rest by zeros. It keeps any subset of the other changes of names, in any
// order, except that changes of one name keep their order. A rename is one change: it happens completely or not at all.
type Disk struct {
	// Hook, if not nil, is called before each operation, and once more in the middle of each write. If it panics, the process that uses the
	// disk is dead: each further operation panics with the same value until Kill or PowerCut.
	Hook func(Op)
	// Full makes the disk full: each write stores only some of its bytes, and nothing can be created.
	Full bool
	// Failing makes about half of all calls of Sync and SyncDir fail with EIO. As on Linux, the bytes of a failed Sync then count as clean:
	// a later Sync returns nil without making them durable, so callers must write them to another file. A failed SyncDir can be repeated,
	// because a file system that cannot write its journal stops writing anything.
	Failing bool
	// Clock, if not nil, gives files their times of modification. It may go backwards.
	Clock func() time.Time
	// Operations is the number of operations so far.
	Operations int

	random *rand.Rand
	root   *node
	epoch  int // the number of kills and power cuts; handles and locks of earlier ones are invalid
	killAt int
	dead   any // the value of the panic that killed the process
}

// Op is an operation on a disk. Name is the method's name, or "write middle" when a part of a write is done.
type Op struct {
	Number     int // from 1
	Name, Path string
}

// ErrKilled is the value of KillAt's panic.
var ErrKilled = errors.New("the process was killed")

type node struct {
	mode     fs.FileMode
	modified time.Time
	locked   int // the epoch of the process that locked the file, plus one

	// Fields of a file. The first synced bytes are durable: as in data, or as in was where data was overwritten since.
	data   []byte
	synced int
	was    []byte
	failed []span // the bytes that a failed Sync did not write

	// Fields of a folder: the names after all changes, and the durable names.
	names, durable map[string]*node
	changes        []change
}

// span is a part of a file whose former bytes a power cut may restore.
type span struct {
	at    int
	bytes []byte
}

// change assigns names to nodes atomically. A nil node removes the name.
type change []entry

type entry struct {
	name string
	node *node
}

// NewDisk makes an empty disk, with the folder /.
func NewDisk(random *rand.Rand) *Disk {
	return &Disk{random: random, root: newFolder(0o755)}
}

func newFolder(mode fs.FileMode) *node {
	return &node{mode: fs.ModeDir | mode, names: map[string]*node{}, durable: map[string]*node{}}
}

// KillAt makes operation n, counted as in Operations, panic with ErrKilled, as Hook can. 0 disables it.
func (d *Disk) KillAt(n int) { d.killAt = n }

// before counts an operation and calls the hook.
func (d *Disk) before(name, path string) {
	if d.dead != nil {
		panic(d.dead)
	}
	d.Operations++
	defer func() {
		if d.dead = recover(); d.dead != nil {
			panic(d.dead)
		}
	}()
	if d.Operations == d.killAt {
		panic(ErrKilled)
	}
	if d.Hook != nil {
		d.Hook(Op{d.Operations, name, path})
	}
}

// Kill ends the process that uses the disk. Everything it has written stays, synced or not. Its locks are released, and its handles are
// invalid.
func (d *Disk) Kill() {
	d.epoch++
	d.dead, d.killAt = nil, 0
}

// PowerCut ends the process, and the disk loses some or all of the changes that are not durable.
func (d *Disk) PowerCut() {
	d.Kill()
	d.cut(d.root)
}

func (d *Disk) cut(n *node) {
	if !n.mode.IsDir() {
		d.tear(n)
		return
	}
	lost := map[string]bool{} // names with a lost change; later changes of them are lost too
	share := d.random.Float64()
	for _, c := range n.changes {
		gone := d.random.Float64() < share
		for _, e := range c {
			gone = gone || lost[e.name]
		}
		for _, e := range c {
			if gone {
				lost[e.name] = true
			} else {
				set(n.durable, e)
			}
		}
	}
	n.changes, n.names = nil, maps.Clone(n.durable)
	for _, name := range slices.Sorted(maps.Keys(n.names)) {
		d.cut(n.names[name])
	}
}

// set assigns a name of a folder to a node.
func set(names map[string]*node, e entry) {
	if e.node == nil {
		delete(names, e.name)
	} else {
		names[e.name] = e.node
	}
}

// tear loses bytes of a file that were not synced.
func (d *Disk) tear(n *node) {
	if n.was != nil {
		at := d.random.IntN(n.synced + 1)
		copy(n.data[at:], n.was[at:])
		n.was = nil
	}
	for _, s := range slices.Backward(n.failed) { // the oldest span holds the bytes on the disk
		if d.random.IntN(4) > 0 {
			copy(n.data[min(s.at, len(n.data)):], s.bytes)
		}
	}
	n.failed = nil
	if n.synced < len(n.data) {
		at := n.synced + d.random.IntN(len(n.data)-n.synced)
		switch d.random.IntN(4) {
		case 0: // all bytes survive
		case 1:
			n.data = n.data[:at]
		case 2:
			n.data = n.data[:n.synced]
		case 3:
			clear(n.data[at:])
		}
	}
	n.synced = len(n.data)
}

// Flip changes one durable bit of one file in a folder, and returns the file's path, or "" if there are no durable bytes.
func (d *Disk) Flip(dir string) (path string) {
	folder, _ := d.find(dir)
	if folder == nil {
		return ""
	}
	var paths []string
	for _, name := range slices.Sorted(maps.Keys(folder.names)) {
		if len(folder.names[name].data) > 0 {
			paths = append(paths, name)
		}
	}
	if len(paths) == 0 {
		return ""
	}
	name := paths[d.random.IntN(len(paths))]
	n := folder.names[name]
	at, bit := d.random.IntN(len(n.data)), byte(1)<<d.random.IntN(8)
	n.data[at] ^= bit
	if at < len(n.was) {
		n.was[at] ^= bit
	}
	return filepath.Join(dir, name)
}

// Files returns the contents of all files in a folder and its subfolders, by their paths relative to it.
func (d *Disk) Files(dir string) map[string]string {
	all := map[string]string{}
	if folder, _ := d.find(dir); folder != nil {
		folder.files("", all)
	}
	return all
}

func (n *node) files(path string, all map[string]string) {
	if !n.mode.IsDir() {
		all[path] = string(n.data)
	}
	for name, inner := range n.names {
		inner.files(filepath.Join(path, name), all)
	}
}

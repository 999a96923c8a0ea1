package cpu

import (
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/evald/evald/engine/durable"
	kernel "github.com/evald/evald/kernels/cpu"
	"github.com/evald/evald/nn/net"
)

// machine stores the rates of its paths, in a file for each pair of blocks and channels, so that the path, and with it the answers, stay
// the same after a restart. The process that writes the file measures; all others wait for it, so that measurements do not disturb each
// other.
type machine struct {
	dir                string // "" if there is none
	processor, program string
	paths              []kernel.Path
	measure            func(blocks, channels int) map[kernel.Path]float64
	patience           time.Duration // maximum time to wait for another process that measures
}

// measurement is the content of a file.
type measurement struct {
	Processor string                  `json:"processor"`
	Program   string                  `json:"program"` // version of the program
	Blocks    int                     `json:"blocks"`
	Channels  int                     `json:"channels"`
	Rates     map[kernel.Path]float64 `json:"rates"`
}

func thisMachine() machine {
	m := machine{processor: kernel.Processor(), program: programVersion(), paths: kernel.Paths(), measure: kernel.Rates, patience: 10 * time.Second}
	m.paths = m.paths[:len(m.paths)-1] // plain Go is not measured
	if dir, err := durable.CacheDir(); err == nil {
		m.dir = filepath.Join(dir, "cpu")
	}
	return m
}

// programVersion differs between versions of this program. A program that was built without version information is identified by its file.
func programVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = new(debug.BuildInfo)
	}
	v := fmt.Sprint(info.Main.Path, " ", info.Main.Version, " ", info.GoVersion)
	versioned := false
	for _, s := range info.Settings {
		if strings.HasPrefix(s.Key, "vcs.") {
			v, versioned = v+" "+s.Value, true
		}
	}
	if versioned {
		return v
	}
	path, err := os.Executable()
	if err == nil {
		var file os.FileInfo
		if file, err = os.Stat(path); err == nil {
			v += fmt.Sprintf(" %d %v", file.Size(), file.ModTime().UTC())
		}
	}
	return v
}

// path returns the path of the file. Machines that share a home directory have different files.
func (m machine) path(blocks, channels int) string {
	return filepath.Join(m.dir, fmt.Sprintf("%dx%d-%s.json", blocks, channels, m.id()))
}

func (m machine) id() string {
	return fmt.Sprintf("%08x", crc32.ChecksumIEEE(fmt.Append(nil, m.processor, m.paths)))
}

// rates returns the rates in the file. If the file is missing, damaged or from another version of the program, it measures the rates and
// stores them. The error says why there are no rates.
func (m machine) rates(c net.Config) (map[kernel.Path]float64, error) {
	if len(m.paths) < 2 {
		return nil, errors.New("all others are plain Go")
	}
	if m.dir == "" {
		return nil, errors.New("this user has no cache, in which to keep rates: EVALD_CACHE_DIR names a folder")
	}
	path, start := m.path(c.Blocks, c.Channels), time.Now()
	for {
		if rates := m.read(path, c); rates != nil {
			return rates, nil
		}
		err := os.MkdirAll(m.dir, 0o755)
		if err != nil {
			return nil, err
		}
		w, err := durable.Create(path)
		if errors.Is(err, durable.ErrInUse) && time.Since(start) < m.patience {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if err != nil {
			return nil, err
		}
		defer w.Abort()                             // does nothing after Commit
		if rates := m.read(path, c); rates != nil { // another process has written them meanwhile
			return rates, nil
		}
		rates := m.measure(c.Blocks, c.Channels)
		text, err := durable.MarshalIndent(measurement{m.processor, m.program, c.Blocks, c.Channels, rates})
		if err == nil {
			_, err = w.Write(text)
		}
		if err == nil {
			err = w.Commit()
		}
		if err != nil { // without the file, the next start would measure other rates
			return nil, err
		}
		return rates, nil
	}
}

// read returns the rates of the file, or nil unless they are for all paths, this machine, this program, and these blocks and channels.
func (m machine) read(path string, c net.Config) map[kernel.Path]float64 {
	var was measurement
	text, err := durable.ReadFile(path, 1<<16)
	if err == nil {
		err = durable.Unmarshal(text, &was)
	}
	if err != nil || was.Processor != m.processor || was.Program != m.program || was.Blocks != c.Blocks || was.Channels != c.Channels || len(was.Rates) != len(m.paths) {
		return nil
	}
	for _, p := range m.paths {
		if !(was.Rates[p] > 0) {
			return nil
		}
	}
	return was.Rates
}

// Measured returns the blocks and channels for which this machine has rates, smallest first.
func Measured() (all []net.Config) {
	m := thisMachine()
	files, _ := os.ReadDir(m.dir) // none if the folder does not exist
	for _, f := range files[:min(len(files), 1000)] {
		shape, ours := strings.CutSuffix(f.Name(), "-"+m.id()+".json")
		if c, err := net.ParseConfig(shape); ours && err == nil && m.read(filepath.Join(m.dir, f.Name()), c) != nil {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b net.Config) int { return cmp.Compare(a.Parameters(), b.Parameters()) })
	return all
}

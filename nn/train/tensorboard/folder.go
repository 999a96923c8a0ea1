package tensorboard

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// The names of event files contain a number between prefix and suffix; those of other programs have
// another suffix.
const prefix, suffix = "events.out.tfevents.", ".evald"

// eventFiles lists the names of all event files in a folder, in order.
func eventFiles(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// laterName returns the name of a new file, which is later than names. It contains the time in
// milliseconds, or a larger number.
func laterName(names []string, now time.Time) string {
	name := func(number int64) string { return fmt.Sprintf("%s%d%s", prefix, number, suffix) }
	next := now.UnixMilli()
	for _, other := range names {
		if other < name(next) {
			continue
		}
		var number int64
		if _, err := fmt.Sscanf(other[len(prefix):], "%d", &number); err == nil && number < math.MaxInt64 && name(number+1) > other {
			next = number + 1
		}
	}
	return name(next)
}

// forget empties files of this package, and removes those that were emptied before. A running
// TensorBoard stays at a file that is removed while it reads it, and never reads the next one.
// Errors do not matter: the newest file makes TensorBoard ignore the points of all others.
func forget(dir string, names []string) {
	for _, name := range names {
		path := filepath.Join(dir, name)
		info, err := os.Lstat(path)
		switch {
		case err != nil || !info.Mode().IsRegular() || !strings.HasSuffix(name, suffix):
		case info.Size() == 0:
			_ = os.Remove(path)
		default:
			_ = os.Truncate(path, 0)
		}
	}
}

// readTimes adds the times of a file's points to times, by step. It reads up to the first damaged
// or partial event: times are for display.
func readTimes(path string, times map[int]time.Time) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	for {
		event, rest, ok := unframe(text)
		if !ok {
			return nil
		}
		if step, at, ok := pointTime(event); ok {
			times[step] = at
		}
		text = rest
	}
}

// unframe splits off the first record of a file, the reverse of frame.
func unframe(text []byte) (data, rest []byte, ok bool) {
	const head, tail = 12, 4
	if len(text) < head+tail {
		return nil, nil, false
	}
	size := binary.LittleEndian.Uint64(text)
	if size > uint64(len(text)-head-tail) || binary.LittleEndian.Uint32(text[8:]) != masked(text[:8]) {
		return nil, nil, false
	}
	data, rest = text[head:head+size], text[head+size:]
	return data, rest[tail:], binary.LittleEndian.Uint32(rest) == masked(data)
}

// pointTime returns the step and the time of an event; ok is false if it has no values.
func pointTime(event []byte) (step int, at time.Time, ok bool) {
	for len(event) > 0 {
		field, kind, n := protowire.ConsumeTag(event)
		if n < 0 {
			return 0, at, false
		}
		event = event[n:]
		size := protowire.ConsumeFieldValue(field, kind, event)
		if size < 0 {
			return 0, at, false
		}
		switch {
		case field == eventTime && kind == protowire.Fixed64Type:
			bits, _ := protowire.ConsumeFixed64(event)
			if seconds := math.Float64frombits(bits); seconds > 0 && seconds < 1<<33 { // no other time fits UnixNano
				at = time.Unix(0, int64(seconds*1e9))
			}
		case field == eventStep && kind == protowire.VarintType:
			number, _ := protowire.ConsumeVarint(event)
			step = int(number)
		case field == eventSummary:
			ok = true
		}
		event = event[size:]
	}
	return step, at, ok && !at.IsZero()
}

// Package tensorboard writes the event files that TensorBoard shows as curves.
//
//	tensorboard.go  Writer: a run's event file
//	folder.go       the event files in a run's folder: their names, and the times of their points
package tensorboard

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/evald/evald/engine/durable"
	"google.golang.org/protobuf/encoding/protowire"
)

// Scalar is a point of a curve. Tags with the same text before a slash share a section of TensorBoard's page.
type Scalar struct {
	Tag   string
	Value float32
}

// Point is the values of one step.
type Point struct {
	Step   int
	Values []Scalar
}

// Writer writes one event file. Each event is a single Write, so a killed process leaves whole events and at most one partial event at the
// end, which readers ignore.
type Writer struct {
	io.Closer // the file
	w         io.Writer

	now        func() time.Time
	read, last time.Time // what now returned for the last event, and the time of that event
}

// Fields of the protocol buffer messages Event, Summary, Summary.Value and SessionLog.
const (
	eventTime, eventStep, eventVersion, eventSummary, eventSession = 1, 2, 3, 5, 7

	summaryValue        = 1
	valueTag, valueReal = 1, 2
	sessionStatus       = 1
	sessionStart        = 1
)

// Open begins the event file of a run, which the run's process then appends to. points are those of
// the run so far, in the order of steps.
//
// The folder's earlier files of this package are emptied. TensorBoard reads a folder in the order
// of names, which may not be the order in which processes wrote the files: clocks differ between
// machines, and are set. So a single file has all points, and each keeps the time at which it was
// first written. The file's name is later than all others in the folder, so that a running
// TensorBoard reads it next.
func Open(dir string, points []Point) (*Writer, error) { return open(dir, points, time.Now) }

func open(dir string, points []Point, now func() time.Time) (*Writer, error) {
	names, err := eventFiles(dir)
	if err != nil {
		return nil, err
	}
	times := map[int]time.Time{}
	for _, name := range names {
		if strings.HasSuffix(name, suffix) {
			if err := readTimes(filepath.Join(dir, name), times); err != nil {
				return nil, err
			}
		}
	}
	var text bytes.Buffer
	t := &Writer{w: &text, now: now}
	t.read = now()
	t.last = t.read
	for _, p := range points { // the time of the beginning is at most that of the first point
		if at, ok := times[p.Step]; ok && at.Before(t.last) {
			t.last = at
		}
	}
	if err := t.begin(t.last); err != nil {
		return nil, err
	}
	for _, p := range points {
		if at, ok := times[p.Step]; ok && at.After(t.last) {
			t.last = at
		}
		if err := t.event(t.last, p.Step, summary(p.Values)); err != nil {
			return nil, err
		}
	}
	path := filepath.Join(dir, laterName(names, t.read))
	if err := durable.WriteFile(path, text.Bytes()); err != nil {
		return nil, err
	}
	forget(dir, names)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	t.Closer, t.w = f, f
	return t, nil
}

// begin writes the events with which a file begins. TensorBoard then ignores points that it has
// read from earlier files.
func (t *Writer) begin(at time.Time) error {
	version := protowire.AppendString(protowire.AppendTag(nil, eventVersion, protowire.BytesType), "brain.Event:2")
	if err := t.event(at, 0, version); err != nil {
		return err
	}
	start := protowire.AppendVarint(protowire.AppendTag(nil, sessionStatus, protowire.VarintType), sessionStart)
	return t.event(at, 0, protowire.AppendBytes(protowire.AppendTag(nil, eventSession, protowire.BytesType), start))
}

// Scalars writes the values of the next step. Its time never precedes that of the previous step,
// even if the clock was set back: TensorBoard draws curves over the time since their first point.
func (t *Writer) Scalars(step int, values ...Scalar) error {
	now := t.now()
	later := t.last.Add(max(0, now.Sub(t.read)))
	if t.read, t.last = now, now; later.After(now) {
		t.last = later
	}
	return t.event(t.last, step, summary(values))
}

func summary(values []Scalar) []byte {
	var summary []byte
	for _, s := range values {
		value := protowire.AppendString(protowire.AppendTag(nil, valueTag, protowire.BytesType), s.Tag)
		value = protowire.AppendFixed32(protowire.AppendTag(value, valueReal, protowire.Fixed32Type), math.Float32bits(s.Value))
		summary = protowire.AppendBytes(protowire.AppendTag(summary, summaryValue, protowire.BytesType), value)
	}
	return protowire.AppendBytes(protowire.AppendTag(nil, eventSummary, protowire.BytesType), summary)
}

// event writes one Event; what is its encoded content.
func (t *Writer) event(at time.Time, step int, what []byte) error {
	seconds := float64(at.UnixNano()) / 1e9
	event := protowire.AppendFixed64(protowire.AppendTag(nil, eventTime, protowire.Fixed64Type), math.Float64bits(seconds))
	event = protowire.AppendVarint(protowire.AppendTag(event, eventStep, protowire.VarintType), uint64(step))
	if _, err := t.w.Write(frame(append(event, what...))); err != nil {
		return fmt.Errorf("write TensorBoard events: %w", err)
	}
	return nil
}

// frame is a record in TensorFlow's file format: length, checksum of the length, data, checksum of the data.
func frame(data []byte) []byte {
	record := binary.LittleEndian.AppendUint64(nil, uint64(len(data)))
	record = binary.LittleEndian.AppendUint32(record, masked(record))
	record = append(record, data...)
	return binary.LittleEndian.AppendUint32(record, masked(data))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// masked returns the CRC-32C, rotated and offset so that it stays a good checksum for data that contains checksums.
func masked(data []byte) uint32 {
	crc := crc32.Checksum(data, castagnoli)
	return (crc>>15 | crc<<17) + 0xa282ead8
}

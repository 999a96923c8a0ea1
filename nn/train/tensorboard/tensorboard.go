// Package tensorboard writes the event files that TensorBoard shows as curves.
package tensorboard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Scalar is a point of a curve. Tags with the same text before a slash share a section of TensorBoard's page.
type Scalar struct {
	Tag   string
	Value float32
}

// Writer writes one event file. Each event is a single Write, so a killed process leaves whole events and at most one partial event at the
// end, which readers ignore.
type Writer struct {
	io.Closer // the file
	w         io.Writer
}

// Fields of the protocol buffer messages Event, Summary, Summary.Value and SessionLog.
const (
	eventTime, eventStep, eventVersion, eventSummary, eventSession = 1, 2, 3, 5, 7

	summaryValue        = 1
	valueTag, valueReal = 1, 2
	sessionStatus       = 1
	sessionStart        = 1
)

// Create begins a file in a folder at a step. TensorBoard then ignores the points of earlier files in the folder from that step on. The
// caller must close the Writer.
func Create(dir string, step int) (*Writer, error) {
	now := time.Now()
	f, err := os.Create(filepath.Join(dir, fmt.Sprintf("events.out.tfevents.%d.evald", now.UnixMilli())))
	if err != nil {
		return nil, err
	}
	t, err := newWriter(f, now, step)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	t.Closer = f
	return t, nil
}

func newWriter(w io.Writer, now time.Time, step int) (*Writer, error) {
	t := &Writer{w: w}
	version := protowire.AppendString(protowire.AppendTag(nil, eventVersion, protowire.BytesType), "brain.Event:2")
	if err := t.event(now, 0, version); err != nil {
		return nil, err
	}
	start := protowire.AppendVarint(protowire.AppendTag(nil, sessionStatus, protowire.VarintType), sessionStart)
	session := protowire.AppendBytes(protowire.AppendTag(nil, eventSession, protowire.BytesType), start)
	return t, t.event(now, step, session)
}

// Scalars writes the values of one step.
func (t *Writer) Scalars(now time.Time, step int, values ...Scalar) error {
	var summary []byte
	for _, s := range values {
		value := protowire.AppendString(protowire.AppendTag(nil, valueTag, protowire.BytesType), s.Tag)
		value = protowire.AppendFixed32(protowire.AppendTag(value, valueReal, protowire.Fixed32Type), math.Float32bits(s.Value))
		summary = protowire.AppendBytes(protowire.AppendTag(summary, summaryValue, protowire.BytesType), value)
	}
	return t.event(now, step, protowire.AppendBytes(protowire.AppendTag(nil, eventSummary, protowire.BytesType), summary))
}

// event writes one Event; what is its encoded content.
func (t *Writer) event(now time.Time, step int, what []byte) error {
	seconds := float64(now.UnixNano()) / 1e9
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

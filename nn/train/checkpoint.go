package train

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/evald/evald/engine/durable"
)

// A checkpoint is
//
//	magic
//	4 bytes     length of the header, little-endian
//	the header  JSON
//	the data    float32, little-endian: for each tensor of net.Config.Specs the weight, its moving average if there is
//	            one, and for trained tensors the solver's first and (AdamW) second moment
//	32 bytes    SHA-256 of everything before
//
// It contains no random state: the random numbers of a step and its place in the data depend only on the seed and the step's number.
const (
	magic               = "evald checkpoint 1\n"
	maxCheckpointHeader = 1 << 16
)

type checkpointHeader struct {
	Config Config `json:"config"`
	Step   int    `json:"step"`
}

// Checkpoint returns the run's state as of the last fetch from the Trainer's computer.
func (t *Trainer) Checkpoint() []byte { return PackCheckpoint(t.config.Header(t.step), t.state()) }

// PackCheckpoint joins a header (Header) and the numbers that steps change.
func PackCheckpoint(header []byte, state [][]float32) []byte {
	size := len(magic) + 4 + len(header) + sha256.Size
	for _, part := range state {
		size += 4 * len(part)
	}
	file := append(make([]byte, 0, size), magic...)
	file = binary.LittleEndian.AppendUint32(file, uint32(len(header)))
	file = append(file, header...)
	for _, part := range state {
		file, _ = binary.Append(file, binary.LittleEndian, part) // cannot fail for a slice of numbers
	}
	sum := sha256.Sum256(file)
	return append(file, sum[:]...)
}

// Header returns a checkpoint's header: the configuration and the number of steps done, as JSON.
func (c Config) Header(steps int) []byte {
	header, err := json.Marshal(checkpointHeader{c, steps})
	if err != nil {
		panic(err) // cannot happen: the numbers have been validated
	}
	return header
}

// state returns all numbers that steps change, in the file's order.
func (t *Trainer) state() (parts [][]float32) {
	for _, s := range t.net.Config().Specs() {
		parts = append(parts, t.net.Weight(s.Name).Float32s())
		if t.average != t.net {
			parts = append(parts, t.average.Weight(s.Name).Float32s())
		}
		if m := t.moments[s.Name]; m != nil {
			parts = append(parts, m.first, m.second)
		}
	}
	return parts
}

// Restore resumes the run from a checkpoint of the same configuration. If it returns an error, it has changed nothing.
func (t *Trainer) Restore(file []byte) error {
	step, err := t.config.UnpackCheckpoint(file, t.state())
	if err != nil {
		return err
	}
	t.step = step
	return t.computer.send()
}

// UnpackCheckpoint reads a checkpoint of the same configuration into state, and returns the number of steps done. If it returns an error,
// it has changed nothing.
func (c Config) UnpackCheckpoint(file []byte, state [][]float32) (steps int, err error) {
	header, data, err := splitCheckpoint(file)
	if err != nil {
		return 0, fmt.Errorf("checkpoint: %w; remove it to begin anew", err)
	}
	if err := durable.SameConfig(header.Config, c); err != nil {
		return 0, fmt.Errorf("checkpoint: %w", err)
	}
	size := 0
	for _, part := range state {
		size += 4 * len(part)
	}
	if size != len(data) || header.Step < 0 || header.Step > c.Steps {
		return 0, fmt.Errorf("checkpoint: %d bytes of state at step %d, want %d bytes at a step up to %d; remove it to begin anew", len(data), header.Step, size, c.Steps)
	}
	for _, part := range state {
		n, _ := binary.Decode(data, binary.LittleEndian, part) // can fail only if data is too short
		data = data[n:]
	}
	return header.Step, nil
}

// splitCheckpoint checks a file's structure and its checksum.
func splitCheckpoint(file []byte) (h checkpointHeader, data []byte, err error) {
	rest, ok := bytes.CutPrefix(file, []byte(magic))
	if !ok {
		return h, nil, errors.New("the file is not a checkpoint of this program's version")
	}
	if len(rest) < 4+sha256.Size {
		return h, nil, fmt.Errorf("the file has %d bytes, which is too few", len(file))
	}
	body := file[:len(file)-sha256.Size]
	if sha256.Sum256(body) != [sha256.Size]byte(file[len(body):]) {
		return h, nil, errors.New("the file is damaged: its sum is wrong")
	}
	length := int(binary.LittleEndian.Uint32(rest))
	rest = rest[4 : len(rest)-sha256.Size]
	if length > maxCheckpointHeader || length > len(rest) {
		return h, nil, fmt.Errorf("its header has %d bytes, which is too many", length)
	}
	dec := json.NewDecoder(bytes.NewReader(rest[:length]))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&h); err != nil {
		return h, nil, fmt.Errorf("its header: %w", err)
	}
	return h, rest[length:], nil
}

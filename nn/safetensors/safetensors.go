// Package safetensors reads and writes files in the safetensors format.
//
// A safetensors file is
//
//	8 bytes       length of the header, little-endian
//	the header    JSON: {"__metadata__":{"key":"text",..},"name":{"dtype":"F32","shape":[..],"data_offsets":[from,to]},..}
//	              padded with spaces
//	the data      of all tensors, little-endian and row-major; offsets count from here
//
// The reader does not trust the file. It works on bytes that are already in memory, and checks that shapes, offsets and data agree. So
// callers may allocate memory according to a tensor's shape.
package safetensors

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/evald/evald/engine/short"
)

// Overhead is the maximum number of bytes of a file in addition to its data.
const Overhead = lengthSize + maxHeader

const (
	lengthSize  = 8       // bytes of the header's length
	maxHeader   = 1 << 20 // maximum bytes of the header; 256 blocks need about 100 kB
	metadataKey = "__metadata__"
)

// SumKey is the metadata key of a file's checksum. The checksum is the Sum of the file without that key, and is optional.
const SumKey = "evald.sha256"

// Tensor is one tensor of a file.
type Tensor struct {
	Name  string
	Dtype string
	Shape []int
	Data  []byte // little-endian and row-major
}

// section is a tensor that has been read.
type section struct {
	Tensor
	from, to int // range of bytes in the data
}

// widths are the bytes per value of the types.
var widths = map[string]int{"F32": 4, "BF16": 2, "I8": 1, "I16": 2, "I32": 4}

// Split checks the file's structure and returns its metadata and tensors, in the order of their data. Data shares memory with file. It
// accepts only the given types, a subset of F32, BF16, I8, I16 and I32. The error names the invalid tensor or field.
func Split(file []byte, dtypes ...string) (metadata map[string]string, tensors []Tensor, err error) {
	if len(file) < lengthSize {
		return nil, nil, fmt.Errorf("file has %d bytes, too few for a safetensors header", len(file))
	}
	length, rest := binary.LittleEndian.Uint64(file), file[lengthSize:]
	switch {
	case length > maxHeader:
		return nil, nil, fmt.Errorf("header length is %d, must be at most %d", length, maxHeader)
	case length > uint64(len(rest)):
		return nil, nil, fmt.Errorf("header length is %d, but only %d bytes follow", length, len(rest))
	}
	header, data := rest[:length], rest[length:]
	metadata, sections, err := parseHeader(header, dtypes)
	if err == nil {
		err = checkLayout(sections, len(data))
	}
	if err != nil {
		return nil, nil, err
	}
	for _, s := range sections {
		s.Data = data[s.from:s.to:s.to]
		tensors = append(tensors, s.Tensor)
	}
	return metadata, tensors, nil
}

// parseHeader parses the JSON header. The decoder rejects duplicate keys.
func parseHeader(header []byte, dtypes []string) (metadata map[string]string, sections []section, err error) {
	if len(header) == 0 || header[0] != '{' {
		return nil, nil, errors.New("header does not begin with {")
	}
	var all map[string]jsontext.Value
	if err := jsonv2.Unmarshal(header, &all); err != nil {
		return nil, nil, fmt.Errorf("header: %w", reworded(err))
	}
	metadata = map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if name == metadataKey {
			if err := jsonv2.Unmarshal(all[name], &metadata); err != nil {
				return nil, nil, fmt.Errorf("header: metadata: %w", reworded(err))
			}
			continue
		}
		s, err := parseSection(name, all[name], dtypes)
		if err != nil {
			return nil, nil, fmt.Errorf("header: tensor %s: %w", short.Quote(name), err)
		}
		sections = append(sections, s)
	}
	return metadata, sections, nil
}

// description is a tensor's entry in the header.
type description struct {
	Dtype   string `json:"dtype"`
	Shape   []int  `json:"shape"`
	Offsets []int  `json:"data_offsets"` // first byte, and the byte after the last
}

// parseSection parses one tensor's entry and checks its type, its shape, and that offsets and shape give the same number of
// bytes.
func parseSection(name string, text jsontext.Value, dtypes []string) (s section, err error) {
	var d description
	if err := DecodeObject(string(text), &d); err != nil {
		return s, err
	}
	s.Name, s.Dtype, s.Shape = name, d.Dtype, d.Shape
	switch offsets := d.Offsets; {
	case !slices.Contains(dtypes, s.Dtype):
		return s, fmt.Errorf("dtype is %s, want %s", short.Quote(s.Dtype), strings.Join(dtypes, " or "))
	case s.Shape == nil:
		return s, errors.New("shape is missing")
	case len(offsets) != 2 || offsets[0] < 0 || offsets[1] < offsets[0]:
		return s, fmt.Errorf("data_offsets are %s, want [from to]", shapeText(offsets))
	}
	s.from, s.to = d.Offsets[0], d.Offsets[1]
	length := widths[s.Dtype]
	for _, d := range s.Shape {
		if d < 1 || d > math.MaxInt/length {
			return s, fmt.Errorf("shape %s: dimension %d is out of range", shapeText(s.Shape), d)
		}
		length *= d
	}
	if s.to-s.from != length {
		return s, fmt.Errorf("shape %s of %s needs %d bytes, but data_offsets give %d", shapeText(s.Shape), s.Dtype, length, s.to-s.from)
	}
	return s, nil
}

// checkLayout sorts the sections by their data and checks that they cover each byte exactly once.
func checkLayout(sections []section, length int) error {
	slices.SortFunc(sections, func(a, b section) int { return cmp.Compare(a.from, b.from) })
	end := 0
	for i, s := range sections {
		switch {
		case s.to > length:
			return fmt.Errorf("tensor %s: data_offsets are [%d %d], but there are %d bytes of data", short.Quote(s.Name), s.from, s.to, length)
		case s.from < end:
			return fmt.Errorf("tensor %s: data begins at %d, inside that of tensor %s", short.Quote(s.Name), s.from, short.Quote(sections[i-1].Name))
		case s.from > end:
			return fmt.Errorf("tensor %s: data begins at %d, leaving a hole of %d bytes", short.Quote(s.Name), s.from, s.from-end)
		}
		end = s.to
	}
	if end != length {
		return fmt.Errorf("%d bytes of data belong to no tensor", length-end)
	}
	return nil
}

// Float32s are the values of a tensor of F32 or BF16.
func (t Tensor) Float32s() []float32 {
	values := make([]float32, len(t.Data)/widths[t.Dtype])
	for i := range values {
		if t.Dtype == "BF16" { // the upper half of a float32
			values[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(t.Data[2*i:])) << 16)
		} else {
			values[i] = math.Float32frombits(binary.LittleEndian.Uint32(t.Data[4*i:]))
		}
	}
	return values
}

// Join returns the file of metadata and tensors. The same input gives the same bytes: keys and data are in the order of names, and spaces
// pad the header to a multiple of 8 bytes.
func Join(metadata map[string]string, tensors []Tensor) []byte {
	header, data := []byte("{"), []byte(nil)
	item := func(key string, value any) {
		header = append(append(append(header, marshal(key)...), ':'), marshal(value)...)
	}
	item(metadataKey, metadata)
	for _, t := range slices.SortedFunc(slices.Values(tensors), func(a, b Tensor) int { return cmp.Compare(a.Name, b.Name) }) {
		from := len(data)
		data = append(data, t.Data...)
		header = append(header, ',')
		item(t.Name, description{t.Dtype, t.Shape, []int{from, len(data)}})
	}
	header = append(header, '}')
	for (lengthSize+len(header))%8 != 0 {
		header = append(header, ' ')
	}
	file := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(file, header...), data...)
}

func marshal(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // cannot happen: strings and whole numbers always marshal
	}
	return text
}

// DecodeObject decodes a metadata text, one JSON object, into a struct. Unknown and duplicate names are errors.
func DecodeObject(text string, into any) error {
	return reworded(jsonv2.Unmarshal([]byte(text), into, jsonv2.RejectUnknownMembers(true)))
}

// reworded shortens an error of the JSON decoder, and names the wrong key.
func reworded(err error) error {
	syntax, _ := errors.AsType[*jsontext.SyntacticError](err)
	typed, _ := errors.AsType[*jsonv2.SemanticError](err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("JSON ends too early")
	case errors.Is(err, jsontext.ErrDuplicateName) && syntax != nil:
		return fmt.Errorf("%s appears twice", short.Quote(string(syntax.JSONPointer[1:])))
	case errors.Is(err, jsonv2.ErrUnknownName) && typed != nil:
		return fmt.Errorf("%s is unknown", short.Quote(typed.JSONPointer.LastToken()))
	}
	return errors.New(short.Text(strings.Replace(err.Error(), "unable to", "cannot", 1))) // the decoder randomly uses one or the other
}

// shapeText formats numbers from a file for an error message, shortened if they are many.
func shapeText(numbers []int) string { return short.Text(fmt.Sprint(numbers)) }

// Sum returns the sha256 of a file written by Join, in hexadecimal digits.
func Sum(file []byte) string { return fmt.Sprintf("%x", sha256.Sum256(file)) }

// CheckSum compares a checksum with that of the file. file must not contain the checksum.
func CheckSum(sum string, file []byte) error {
	if got := Sum(file); got != sum {
		return fmt.Errorf("the file is damaged: its sha256 is %s, but metadata %s is %s; a program that changes a network must remove that key",
			got, SumKey, short.Quote(sum))
	}
	return nil
}

package net

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"gorgonia.org/tensor"

	"github.com/evald/evald/engine/short"
	"github.com/evald/evald/nn/safetensors"
)

// Keys of a network in the file's metadata. All other keys are free text.
const (
	formatKey = "evald.format" // version of the architecture and its tensor names
	configKey = "evald.config" // Config as JSON
	format    = "1"
)

// maxFile is the maximum size of a network's file in bytes.
const maxFile = safetensors.Overhead + 4*maxParameters

// Parse reads a network from the bytes of a safetensors file, and does not retain them. The file must contain exactly the tensors of its
// configuration, in F32 or BF16. A checksum is optional but must be correct. The error names the invalid tensor or field.
func Parse(file []byte) (*Network, error) {
	n, err := parse(file)
	return n, wrap(err, "parse network")
}

func parse(file []byte) (*Network, error) {
	metadata, sections, err := safetensors.Split(file, "F32", "BF16")
	if err != nil {
		return nil, err
	}
	switch got, ok := metadata[formatKey]; {
	case !ok:
		return nil, fmt.Errorf("metadata %s is missing, want %q: the file is no network of evald", formatKey, format)
	case got != format:
		return nil, fmt.Errorf("metadata %s is %s, but this evald reads %q: use the evald that wrote it, or a newer one", formatKey, short.Quote(got), format)
	}
	text, ok := metadata[configKey]
	if !ok {
		return nil, fmt.Errorf("metadata %s is missing", configKey)
	}
	var config Config
	err = safetensors.DecodeObject(text, &config)
	if err == nil {
		err = config.Validate()
	}
	if err != nil {
		return nil, fmt.Errorf("metadata %s: %w", configKey, err)
	}
	specs := map[string]Spec{}
	for _, s := range config.Specs() {
		specs[s.Name] = s
	}
	weights := make(map[string]*tensor.Dense, len(sections))
	for _, s := range sections {
		spec, ok := specs[s.Name]
		if !ok {
			return nil, fmt.Errorf("network %s: tensor %s is unknown", config, short.Quote(s.Name))
		}
		if !slices.Equal(s.Shape, spec.Shape) {
			return nil, fmt.Errorf("network %s: tensor %q has shape %s, want %v", config, s.Name, short.Text(fmt.Sprint(s.Shape)), spec.Shape)
		}
		weights[s.Name] = newTensor(s.Float32s(), s.Shape...)
	}
	n, err := FromWeights(config, weights)
	if err != nil {
		return nil, err
	}
	sum, summed := metadata[safetensors.SumKey]
	for _, key := range reserved {
		delete(metadata, key)
	}
	n.Metadata = metadata
	if _, err := n.Ranges(); err != nil {
		return nil, err
	}
	if !summed {
		return n, nil
	}
	if err := safetensors.CheckSum(sum, n.plain()); err != nil {
		return nil, err
	}
	return n, nil
}

var reserved = []string{formatKey, configKey, safetensors.SumKey}

// plain returns the file without its checksum.
func (n *Network) plain() []byte { return joined(n.fileMetadata(), n.weights) }

// fileMetadata is the file's metadata without the checksum.
func (n *Network) fileMetadata() map[string]string {
	text, err := json.Marshal(n.config)
	if err != nil {
		panic(err) // cannot happen: whole numbers always marshal
	}
	metadata := map[string]string{formatKey: format, configKey: string(text)}
	maps.Copy(metadata, n.Metadata)
	return metadata
}

// joined returns the file of these metadata and tensors, all F32.
func joined(metadata map[string]string, weights map[string]*tensor.Dense) []byte {
	tensors := make([]safetensors.Tensor, 0, len(weights))
	for name, t := range weights {
		data, err := binary.Append(nil, binary.LittleEndian, t.Float32s())
		if err != nil {
			panic(err) // cannot happen: float32s have a fixed size
		}
		tensors = append(tensors, safetensors.Tensor{Name: name, Dtype: "F32", Shape: t.Shape(), Data: data})
	}
	return safetensors.Join(metadata, tensors)
}

// ReadFile parses a file. Files larger than any network are an error.
func ReadFile(path string) (*Network, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read network: %w", err)
	}
	defer f.Close()
	file, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(file) > maxFile {
		err = fmt.Errorf("more than %d bytes", maxFile)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: read network: %w", path, err)
	}
	n, err := Parse(file)
	return n, wrap(err, "%s", path)
}

// Marshal returns the network as a safetensors file, all F32, with its checksum. The same network always gives the same bytes.
// The error names a weight that is not finite or a reserved key of Metadata.
func (n *Network) Marshal() ([]byte, error) {
	for _, key := range reserved {
		if _, taken := n.Metadata[key]; taken {
			return nil, fmt.Errorf("write network: metadata %s is reserved", key)
		}
	}
	for _, s := range n.config.Specs() {
		if err := s.check(n.weights[s.Name]); err != nil { // weights may not be finite after a training run has diverged
			return nil, fmt.Errorf("write network: tensor %q %w", s.Name, err)
		}
	}
	metadata := n.fileMetadata()
	metadata[safetensors.SumKey] = safetensors.Sum(n.plain())
	return joined(metadata, n.weights), nil
}

// wrap puts text before an error. It returns nil for nil.
func wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)
}

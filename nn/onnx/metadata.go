package onnx

import (
	"errors"

	"google.golang.org/protobuf/encoding/protowire"
)

// Numbers of fields of onnx.proto: metadata_props of ModelProto; key and value of StringStringEntryProto.
const (
	metadataField = 14
	keyField      = 1
	valueField    = 2
)

// Is reports whether a file may be ONNX. All programs write the format's version first. In a safetensors file, the ninth byte begins a JSON
// object; in an ONNX file it does not.
func Is(content []byte) bool {
	return len(content) > 8 && content[0] == byte(protowire.EncodeTag(1, protowire.VarintType)) && content[8] != '{'
}

// WithMetadata returns the file with the metadata under key replaced. All other bytes stay the same.
func WithMetadata(content []byte, key, value string) ([]byte, error) {
	out := make([]byte, 0, len(content)+len(key)+len(value)+16)
	for rest := content; len(rest) > 0; {
		number, kind, n := protowire.ConsumeField(rest)
		if n < 0 {
			return nil, errors.New("write ONNX metadata: the file is damaged")
		}
		field := rest[:n]
		rest = rest[n:]
		if number != metadataField || kind != protowire.BytesType || keyOf(field) != key {
			out = append(out, field...)
		}
	}
	entry := protowire.AppendString(protowire.AppendTag(nil, keyField, protowire.BytesType), key)
	entry = protowire.AppendString(protowire.AppendTag(entry, valueField, protowire.BytesType), value)
	return protowire.AppendBytes(protowire.AppendTag(out, metadataField, protowire.BytesType), entry), nil
}

// keyOf returns the key of a metadata field, given with its tag, or "" if the field is damaged.
func keyOf(metadata []byte) (key string) {
	err := each(metadata, func(entry field) error {
		return each(entry.bytes, func(f field) error {
			if f.number == keyField {
				key = string(f.bytes)
			}
			return nil
		})
	})
	if err != nil {
		return ""
	}
	return key
}

package safetensors

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/evald/evald/engine/short"
)

// SumKey is the key of a file's checksum in its metadata: Sum of the file without that key. Other programs may leave it out.
const SumKey = "evald.sha256"

// Sum is the sha256 of a file as Join writes it, in hexadecimal digits.
func Sum(file []byte) string {
	sum := sha256.Sum256(file)
	return hex.EncodeToString(sum[:])
}

// CheckSum compares a checksum with the file without it.
func CheckSum(sum string, file []byte) error {
	if got := Sum(file); got != sum {
		return fmt.Errorf("the file is damaged: what it holds has sha256 %s, and metadata %s is %s; a program that changes a network must leave that out",
			got, SumKey, short.Quote(sum))
	}
	return nil
}

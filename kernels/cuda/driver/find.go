//go:build gpu && cgo && linux && amd64

package driver

// #include <cuda.h>
// #include <evald_cuda_loader.h>
import "C"

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"gorgonia.org/cu"
)

// Supported reports whether this program was built with GPU support.
const Supported = true

// Find returns the driver and its devices, or an error that says why there are none. Later calls repeat the first answer.
func Find() (*Driver, error) { return find() }

var find = sync.OnceValues(func() (*Driver, error) {
	names, asked := []string{"libcuda.so.1"}, os.Getenv("EVALD_CUDA_DRIVER") // found by the system's loader
	for _, folder := range Folders {                                         // which the loader may not search
		names = append(names, filepath.Join(folder, "libcuda.so.1"))
	}
	if asked != "" {
		names = []string{asked}
	}
	library, err := open(names)
	if err != nil && asked != "" {
		return nil, errors.New(Details(err)) // not ErrNone
	}
	if err != nil {
		return nil, err
	}
	d := &Driver{Library: library, Version: cu.Version()}
	n, err := cu.NumDevices()
	if err != nil {
		return nil, fmt.Errorf("driver %s: %w", library, wrap("cuDeviceGetCount", err))
	}
	if n == 0 {
		return nil, none(fmt.Sprintf("driver %s: 0 devices", library))
	}
	for i := range n {
		device, err := describe(i)
		if err != nil {
			return nil, fmt.Errorf("driver %s: device %d: %w", library, i, err)
		}
		d.Devices = append(d.Devices, device)
	}
	return d, nil
})

// noDevice is CUDA_ERROR_NO_DEVICE.
const noDevice = 100

// open opens the first of the names that is a driver library. If that driver does not start, the search ends.
func open(names []string) (name string, err error) {
	var tried, reasons []string
	why := make([]byte, 512)
	for _, name := range names {
		cName := C.CString(name)
		result := C.evald_cuda_open(cName, (*C.char)(unsafe.Pointer(&why[0])), C.size_t(len(why)))
		C.free(unsafe.Pointer(cName))
		text := C.GoString((*C.char)(unsafe.Pointer(&why[0])))
		switch {
		case result == 0:
			return name, nil
		case result == noDevice && given() == "":
			return "", none(fmt.Sprintf("driver %s: cuInit: %s", name, text))
		case result == noDevice:
			return "", fmt.Errorf("driver %s: cuInit: %s, although there is %s", name, text, given())
		case result > 0:
			return "", fmt.Errorf("driver %s: cuInit: %s", name, text)
		}
		tried = append(tried, name)
		reasons = append(reasons, strings.TrimPrefix(text, name+": "))
	}
	if len(slices.Compact(slices.Clone(reasons))) == 1 {
		return "", noLibrary(strings.Join(tried, ", ") + ": " + reasons[0])
	}
	for i := range tried {
		tried[i] += ": " + reasons[i]
	}
	return "", noLibrary(strings.Join(tried, "; "))
}

// given returns the device file of a GPU, or "" if there is none or the user has chosen the devices that CUDA shows.
func given() string {
	_, chosen := os.LookupEnv("CUDA_VISIBLE_DEVICES")
	if files, _ := filepath.Glob(Files); len(files) > 0 && !chosen {
		return files[0]
	}
	return ""
}

func describe(index int) (Device, error) {
	d, err := cu.GetDevice(index)
	if err != nil {
		return Device{}, wrap("cuDeviceGet", err)
	}
	device := Device{Index: index}
	if device.UUID, err = uuidOf(d); err != nil {
		return Device{}, err
	}
	if device.Name, err = d.Name(); err != nil {
		return Device{}, wrap("cuDeviceGetName", err)
	}
	if device.Memory, err = d.TotalMem(); err != nil {
		return Device{}, wrap("cuDeviceTotalMem", err)
	}
	var domain, bus, slot int
	for _, a := range []struct {
		attribute cu.DeviceAttribute
		to        *int
	}{
		{cu.ComputeCapabilityMajor, &device.Major},
		{cu.ComputeCapabilityMinor, &device.Minor},
		{cu.MultiprocessorCount, &device.Multiprocessors},
		{C.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &device.Shared},
		{cu.PciDomainID, &domain},
		{cu.PciBusID, &bus},
		{cu.PciDeviceID, &slot},
	} {
		if *a.to, err = d.Attribute(a.attribute); err != nil {
			return Device{}, wrap("cuDeviceGetAttribute", err)
		}
	}
	device.PCI = fmt.Sprintf("%04x:%02x:%02x.0", domain, bus, slot)
	device.Node = node("/sys/bus/pci/devices", device.PCI)
	return device, nil
}

// node returns the NUMA node of the device at this address of the PCI bus, according to the kernel's folder /sys/bus/pci/devices.
// It is -1 if the machine has no NUMA, or the node is unknown.
func node(folder, pci string) int {
	text, err := os.ReadFile(filepath.Join(folder, pci, "numa_node"))
	if err != nil {
		return -1
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// uuidOf returns a device's UUID as nvidia-smi -L prints it. The two functions of the driver differ for a MIG slice alone: the first one
// returns the UUID of its GPU, the second one the slice's. A driver before CUDA 11.4 lacks the second one.
func uuidOf(d cu.Device) (string, error) {
	id, err := d.UUID()
	if err != nil {
		return "", wrap("cuDeviceGetUuid", err)
	}
	own := id
	result := C.cuDeviceGetUuid_v2((*C.CUuuid)(unsafe.Pointer(&own)), C.CUdevice(d))
	switch {
	case result != C.CUDA_SUCCESS && result != C.CUDA_ERROR_NOT_SUPPORTED:
		return "", failed("cuDeviceGetUuid_v2", result)
	case own != id:
		return "MIG-" + own.String(), nil
	default:
		return "GPU-" + id.String(), nil
	}
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A CUDA driver without a GPU: device memory is host memory, a launch does what the kernel's name says, and each call
// is a line of the file that FAKE_CUDA_LOG names. FAKE_CUDA_DEVICES, FAKE_CUDA_CAPABILITY and FAKE_CUDA_VERSION say what
// machine this is; FAKE_CUDA_FAIL=name:status lets one function fail.
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char function_name[4096];
static int retained;

static int setting(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

static int done(const char *name, const char *format, ...) {
    const char *path = getenv("FAKE_CUDA_LOG"), *fail = getenv("FAKE_CUDA_FAIL");
    if (path) {
        FILE *file = fopen(path, "a");
        va_list arguments;
        va_start(arguments, format);
        fprintf(file, "%s ", name);
        vfprintf(file, format, arguments);
        fputc('\n', file);
        va_end(arguments);
        fclose(file);
    }
    size_t length = strlen(name);
    return fail && !strncmp(fail, name, length) && fail[length] == ':' ? atoi(fail + length + 1) : 0;
}

int cuInit(unsigned flags) { return retained = 0, done("cuInit", "%u", flags); }
int cuDriverGetVersion(int *version) { return *version = setting("FAKE_CUDA_VERSION", 13010), 0; }
int cuDeviceGetCount(int *count) { return *count = setting("FAKE_CUDA_DEVICES", 1), 0; }
int cuDeviceGet(int *device, int number) { return *device = 40 + number, 0; }
int cuDeviceGetName(char *name, int size, int device) { return snprintf(name, size, "Fake %d", device), 0; }

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    int capability = setting("FAKE_CUDA_CAPABILITY", 90);
    *value = attribute == 75 ? capability / 10 : attribute == 76 ? capability % 10 : -1;
    return device != 40;
}

int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
    return *flags = 0, *active = retained || setting("FAKE_CUDA_ACTIVE", 0), device != 40;
}
int cuDevicePrimaryCtxRetain(void **context, int device) { return retained = 1, *context = (void *)7, done("retain", "%d", device); }
int cuDevicePrimaryCtxRelease_v2(int device) { return done("release", "%d", device); }
int cuDevicePrimaryCtxReset_v2(int device) { return retained = 0, done("reset", "%d", device); }
int cuCtxSetCurrent(void *context) { return context != (void *)7; }
int cuCtxSetLimit(int limit, size_t value) { return done("cuCtxSetLimit", "%d %zu", limit, value); }
int cuCtxSynchronize(void) { return done("cuCtxSynchronize", ""); }

int cuMemAlloc_v2(uint64_t *address, size_t size) {
    return *address = (uint64_t)aligned_alloc(256, (size + 255) / 256 * 256), done("cuMemAlloc", "%zu", size);
}
int cuMemFree_v2(uint64_t address) { return free((void *)address), done("cuMemFree", ""); }
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size) {
    return memcpy((void *)to, from, size), done("cuMemcpyHtoD", "%zu", size);
}
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size) {
    return memcpy(to, (void *)from, size), done("cuMemcpyDtoH", "%zu", size);
}

int cuModuleLoadData(void **module, const void *image) {
    return *module = (void *)8, done("cuModuleLoadData", "%.3s", (const char *)image + 1);
}
int cuModuleUnload(void *module) { return done("cuModuleUnload", "%d", (int)(intptr_t)module); }
int cuModuleGetFunction(void **function, void *module, const char *name) {
    strncpy(function_name, name, sizeof function_name - 1);
    *function = function_name;
    return module != (void *)8;
}

int cuLaunchKernel(const char *name, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **parameters, void **extra) {
    if (!strncmp(name, "vector_add", 10)) { // pointer, size and stride, three times
        float *a = *(float **)parameters[0], *b = *(float **)parameters[3], *out = *(float **)parameters[6];
        for (int i = 0; i < *(int32_t *)parameters[1]; i++)
            out[i] = a[i] + b[i];
    } else if (!strcmp(name, "scalars")) { // i1, i8, i64, f16, f32, f64, and where they go
        uint8_t *out = *(uint8_t **)parameters[6];
        const int sizes[] = {1, 1, 8, 2, 4, 8};
        for (int i = 0; i < 6; out += sizes[i++])
            memcpy(out, parameters[i], sizes[i]);
    } else if (!strcmp(name, "rows")) { // a table of arrays of one dimension, how many they are, and where their firsts go
        int64_t *table = *(int64_t **)parameters[0];
        for (int i = 0; i < *(int32_t *)parameters[1]; i++)
            (*(float **)parameters[2])[i] = **(float **)(table + 3 * i) + 100 * table[3 * i + 1] + 1000 * table[3 * i + 2];
    } else if (!strcmp(name, "maps")) { // three pointers, three sizes, two tensor maps: all into the third array
        uint8_t *out = *(uint8_t **)parameters[2];
        memcpy(out, parameters[0], 8);
        memcpy(out + 8, parameters[1], 8);
        memcpy(out + 16, parameters[6], 128);
        memcpy(out + 144, parameters[7], 128);
    }
    printf("hello from %s\n", name);
    return done("cuLaunchKernel", "%s grid %u %u %u block %u %u %u shared %u%s", name, gx, gy, gz, bx, by, bz, shared,
                stream || extra ? " more" : "");
}

int cuEventCreate(void **event, unsigned flags) { return *event = (void *)9, done("cuEventCreate", "%u", flags); }
int cuEventDestroy_v2(void *event) { return done("cuEventDestroy", "%d", (int)(intptr_t)event); }
int cuEventRecord(void *event, void *stream) { return event != (void *)9 || stream; }
int cuEventSynchronize(void *event) { return event != (void *)9; }
int cuEventElapsedTime(float *milliseconds, void *begin, void *end) {
    static int calls;
    *milliseconds = 3 + (calls++ % 2); // every other time is longer
    return begin != (void *)9 || end != (void *)9;
}

int cuGetErrorName(int status, const char **text) {
    *text = status == 700   ? "CUDA_ERROR_ILLEGAL_ADDRESS"
            : status == 221 ? "CUDA_ERROR_JIT_COMPILER_NOT_FOUND"
                            : "CUDA_ERROR_OF_SOME_KIND";
    return 0;
}
int cuGetErrorString(int status, const char **text) { return *text = NULL, status; }

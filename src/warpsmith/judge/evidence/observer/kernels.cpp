// What the GPU ran in this process, through CUPTI's activity records: kernels, memory copies and memory fills.
//
// CUPTI is opened at run time, so this file builds where no CUDA is. Records are summed by name where CUPTI hands them
// over, and read as text lines `KIND \t COUNT \t NANOSECONDS \t UNTIMED \t NAME`.

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#if __has_include(<cupti.h>)
#include <cupti.h>
#endif

namespace {

// The first fields of CUpti_ActivityKernel4 to 10, CUpti_ActivityMemcpy3 to 6 and CUpti_ActivityMemset to 4, which are
// alike in every CUPTI from 9.0 to 13.x.
struct __attribute__((packed)) __attribute__((aligned(8))) KernelRecord {
    uint32_t kind;
    uint8_t skipped[12];
    uint64_t start, end;
    uint8_t also_skipped[72];
    const char* name;
};
struct __attribute__((packed)) __attribute__((aligned(8))) MemoryRecord {
    uint32_t kind;
    uint8_t copy_kind;
    uint8_t skipped[3];
    uint64_t bytes, start, end;
};

constexpr uint32_t MEMCPY = 1, MEMSET = 2, KERNEL = 3, CONCURRENT_KERNEL = 10, MEMCPY_PEER = 22;
constexpr uint32_t OLDEST = 12, NEWEST = 139999;
constexpr int LIMIT_REACHED = 12;
constexpr uint32_t FLUSH_FORCED = 1;
constexpr size_t BUFFER_BYTES = 1 << 20;
constexpr size_t MOST_BUFFERS = 64;

#if __has_include(<cupti.h>)
static_assert(offsetof(KernelRecord, start) == offsetof(CUpti_ActivityKernel4, start));
static_assert(offsetof(KernelRecord, end) == offsetof(CUpti_ActivityKernel4, end));
static_assert(offsetof(KernelRecord, name) == offsetof(CUpti_ActivityKernel4, name));
static_assert(offsetof(MemoryRecord, copy_kind) == offsetof(CUpti_ActivityMemcpy5, copyKind));
static_assert(offsetof(MemoryRecord, start) == offsetof(CUpti_ActivityMemcpy5, start));
static_assert(offsetof(MemoryRecord, end) == offsetof(CUpti_ActivityMemset4, end));
static_assert(MEMCPY == CUPTI_ACTIVITY_KIND_MEMCPY && MEMSET == CUPTI_ACTIVITY_KIND_MEMSET);
static_assert(CONCURRENT_KERNEL == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
static_assert(MEMCPY_PEER == CUPTI_ACTIVITY_KIND_MEMCPY2 && FLUSH_FORCED == CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
static_assert(LIMIT_REACHED == CUPTI_ERROR_MAX_LIMIT_REACHED);
#endif

using Requested = void (*)(uint8_t**, size_t*, size_t*);
using Completed = void (*)(void*, uint32_t, uint8_t*, size_t, size_t);

struct Cupti {
    int (*version)(uint32_t*);
    int (*callbacks)(Requested, Completed);
    int (*enable)(uint32_t);
    int (*next)(uint8_t*, size_t, void**);
    int (*flush)(uint32_t);
    int (*dropped)(void*, uint32_t, size_t*);
    int (*text)(int, const char**);
};

struct Sum {
    uint64_t count = 0, nanoseconds = 0, untimed = 0;
};

Cupti cupti;
std::mutex guard;
std::map<std::pair<char, std::string>, Sum> sums;
std::vector<uint8_t*> idle_buffers;
size_t buffers_made = 0;
uint64_t lost = 0;

void add(char kind, const char* name, uint64_t start, uint64_t end) {
    Sum& sum = sums[{kind, name}];
    sum.count += 1;
    if (start == 0 || end < start) {
        sum.untimed += 1;
    } else {
        sum.nanoseconds += end - start;
    }
}

const char* copy_name(uint8_t kind) {
    static const char* names[] = {"unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"};
    return kind < sizeof(names) / sizeof(*names) ? names[kind] : names[0];
}

void take(void* record) {
    const uint32_t kind = *static_cast<uint32_t*>(record);
    if (kind == CONCURRENT_KERNEL || kind == KERNEL) {
        const auto* kernel = static_cast<KernelRecord*>(record);
        add('K', kernel->name != nullptr ? kernel->name : "", kernel->start, kernel->end);
    } else if (kind == MEMCPY || kind == MEMCPY_PEER) {
        const auto* copy = static_cast<MemoryRecord*>(record);
        add('C', copy_name(copy->copy_kind), copy->start, copy->end);
    } else if (kind == MEMSET) {
        const auto* fill = static_cast<MemoryRecord*>(record);
        add('S', "memset", fill->start, fill->end);
    }
}

void on_requested(uint8_t** buffer, size_t* size, size_t* most_records) {
    const std::lock_guard<std::mutex> lock(guard);
    *most_records = 0;
    *buffer = nullptr;
    *size = 0;
    if (!idle_buffers.empty()) {
        *buffer = idle_buffers.back();
        idle_buffers.pop_back();
    } else if (buffers_made < MOST_BUFFERS) {
        *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, BUFFER_BYTES));
        buffers_made += *buffer != nullptr;
    }
    if (*buffer != nullptr) {
        *size = BUFFER_BYTES;
    }
}

uint64_t newly_dropped(void* context, uint32_t stream) {
    size_t dropped = 0;
    return cupti.dropped != nullptr && cupti.dropped(context, stream, &dropped) == 0 ? dropped : 0;
}

void on_completed(void* context, uint32_t stream, uint8_t* buffer, size_t, size_t valid) {
    const uint64_t dropped = newly_dropped(context, stream);
    const std::lock_guard<std::mutex> lock(guard);
    lost += dropped;
    if (buffer == nullptr) {
        return;
    }
    void* record = nullptr;
    while (valid > 0) {
        const int status = cupti.next(buffer, valid, &record);
        if (status != 0) {
            lost += status != LIMIT_REACHED;
            break;
        }
        take(record);
    }
    idle_buffers.push_back(buffer);
}

// Has CUPTI hand over what it holds: what has ended, and where that is nothing also what has no times yet.
bool hand_over() {
    if (cupti.flush(0) != 0) {
        return false;
    }
    bool empty = false;
    {
        const std::lock_guard<std::mutex> lock(guard);
        empty = sums.empty();
    }
    return !empty || cupti.flush(FLUSH_FORCED) == 0;
}

int failed(char* why, size_t room, const char* step, int status) {
    const char* text = nullptr;
    if (cupti.text == nullptr || cupti.text(status, &text) != 0 || text == nullptr) {
        text = "no text";
    }
    snprintf(why, room, "%s: %s (%d)", step, text, status);
    return 1;
}

template <class F>
bool find(void* library, const char* name, F& into) {
    into = reinterpret_cast<F>(dlsym(library, name));
    return into != nullptr;
}

}  // namespace

// Opens the CUPTI at `path` and starts recording. 0, or 1 with the reason in `why`.
extern "C" int observer_kernels_start(const char* path, char* why, size_t room) {
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        snprintf(why, room, "%s", dlerror());
        return 1;
    }
    find(library, "cuptiGetResultString", cupti.text);
    find(library, "cuptiActivityGetNumDroppedRecords", cupti.dropped);
    if (!find(library, "cuptiGetVersion", cupti.version) ||
        !find(library, "cuptiActivityRegisterCallbacks", cupti.callbacks) ||
        !find(library, "cuptiActivityEnable", cupti.enable) ||
        !find(library, "cuptiActivityGetNextRecord", cupti.next) ||
        !find(library, "cuptiActivityFlushAll", cupti.flush)) {
        snprintf(why, room, "%s lacks an activity function: %s", path, dlerror());
        return 1;
    }
    uint32_t version = 0;
    if (const int status = cupti.version(&version)) {
        return failed(why, room, "cuptiGetVersion", status);
    }
    if (version < OLDEST || version > NEWEST) {
        snprintf(why, room, "the records of CUPTI version %u are not known", version);
        return 1;
    }
    if (const int status = cupti.callbacks(on_requested, on_completed)) {
        return failed(why, room, "cuptiActivityRegisterCallbacks", status);
    }
    for (const uint32_t kind : {CONCURRENT_KERNEL, MEMCPY, MEMSET}) {
        if (const int status = cupti.enable(kind)) {
            return failed(why, room, "cuptiActivityEnable", status);
        }
    }
    // copies between GPUs: a version without them still sees the rest
    cupti.enable(MEMCPY_PEER);
    return 0;
}

// Takes in what CUPTI still holds and forgets all; the number of kernels, copies and fills that were there, or -1.
extern "C" long observer_kernels_reset() {
    if (!hand_over()) {
        return -1;
    }
    newly_dropped(nullptr, 0);
    const std::lock_guard<std::mutex> lock(guard);
    long seen = 0;
    for (const auto& entry : sums) {
        seen += static_cast<long>(entry.second.count);
    }
    sums.clear();
    lost = 0;
    return seen;
}

// Writes one line a name, and `L \t COUNT` for records that were lost. The bytes needed: above `room` nothing was
// written. -1 where CUPTI does not hand its records over.
extern "C" long observer_kernels_read(char* out, size_t room) {
    if (!hand_over()) {
        return -1;
    }
    const uint64_t dropped = newly_dropped(nullptr, 0);
    const std::lock_guard<std::mutex> lock(guard);
    lost += dropped;
    std::string text;
    for (const auto& [key, sum] : sums) {
        text += key.first;
        for (const uint64_t number : {sum.count, sum.nanoseconds, sum.untimed}) {
            text += '\t' + std::to_string(number);
        }
        text += '\t';
        for (const char c : key.second) {
            text += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
        }
        text += '\n';
    }
    if (lost > 0) {
        text += "L\t" + std::to_string(lost) + "\t0\t0\t\n";
    }
    if (text.size() <= room) {
        std::memcpy(out, text.data(), text.size());
    }
    return static_cast<long>(text.size());
}

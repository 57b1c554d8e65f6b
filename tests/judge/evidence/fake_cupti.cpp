// A CUPTI that records what the test says the GPU ran: the functions that the observer uses, and `fake_*` to drive it.

#include <cstddef>
#include <cstdint>
#include <cstring>

#ifndef VERSION
#define VERSION 130001
#endif

namespace {

void (*request)(uint8_t**, size_t*, size_t*);
void (*complete)(void*, uint32_t, uint8_t*, size_t, size_t);
uint8_t* buffer;
size_t size, used, dropped;
int refused, flush_status, asleep;
uint64_t enabled;

// of CUpti_ActivityKernel10, CUpti_ActivityMemcpy6 and CUpti_ActivityMemset4
size_t bytes_of(uint32_t kind) { return kind == 10 ? 216 : kind == 1 ? 96 : 88; }

void hand_over() {
    if (buffer != nullptr) {
        uint8_t* full = buffer;
        buffer = nullptr;
        complete(nullptr, 0, full, size, used);
    }
}

}  // namespace

extern "C" {

// The next call of cuptiActivityEnable, or every flush, answers with this status.
void fake_refuse(int status) { refused = status; }
void fake_flush_status(int status) { flush_status = status; }
// As after another tool has taken the activity interface: nothing reaches the observer.
void fake_sleep(int yes) { asleep = yes; }

// `copies`: how often. `name` for kernels; `copy_kind` for copies.
void fake_record(uint32_t kind, const char* name, uint8_t copy_kind, uint64_t start, uint64_t end, int copies) {
    if (asleep || (enabled & (1ull << kind)) == 0) {
        return;
    }
    for (int i = 0; i < copies; i++) {
        if (buffer != nullptr && used + bytes_of(kind) > size) {
            hand_over();
        }
        if (buffer == nullptr) {
            size_t most = 0;
            request(&buffer, &size, &most);
            used = 0;
            if (buffer == nullptr || size < bytes_of(kind)) {
                dropped += 1;
                continue;
            }
        }
        uint8_t* at = buffer + used;
        std::memset(at, 0xee, bytes_of(kind));
        std::memcpy(at, &kind, 4);
        std::memcpy(at + 4, &copy_kind, 1);
        std::memcpy(at + 16, &start, 8);
        std::memcpy(at + 24, &end, 8);
        if (kind == 10) {
            std::memcpy(at + 104, &name, 8);
        }
        used += bytes_of(kind);
    }
}

// Takes buffers and never gives them back, as many as there are.
int fake_exhaust() {
    int taken = 0;
    for (;;) {
        uint8_t* one = nullptr;
        size_t bytes = 0, most = 0;
        request(&one, &bytes, &most);
        if (one == nullptr || taken > 100000) {
            return taken;
        }
        taken += 1;
    }
}

int cuptiGetVersion(uint32_t* version) {
    *version = VERSION;
    return 0;
}

int cuptiActivityRegisterCallbacks(decltype(request) r, decltype(complete) c) {
    request = r;
    complete = c;
    return 0;
}

int cuptiActivityEnable(uint32_t kind) {
    if (refused != 0) {
        return refused;
    }
    enabled |= 1ull << kind;
    return 0;
}

int cuptiActivityGetNextRecord(uint8_t* in, size_t valid, void** record) {
    uint8_t* next = *record == nullptr ? in : static_cast<uint8_t*>(*record) + bytes_of(*static_cast<uint32_t*>(*record));
    if (next >= in + valid) {
        return 12;
    }
    *record = next;
    return 0;
}

#ifndef WITHOUT_FLUSH
int cuptiActivityFlushAll(uint32_t) {
    if (flush_status == 0) {
        hand_over();
    }
    return flush_status;
}
#endif

int cuptiActivityGetNumDroppedRecords(void*, uint32_t, size_t* count) {
    *count = dropped;
    dropped = 0;
    return 0;
}

int cuptiGetResultString(int status, const char** text) {
    *text = status == 35 ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES" : "CUPTI_ERROR_UNKNOWN";
    return 0;
}

}  // extern "C"

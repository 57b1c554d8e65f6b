// Which torch operators this process dispatches, on every thread and from Python and C++ alike, by RecordFunction.
//
// Counted is what a Python dispatch mode would see: an operator that only composes others is looked through, and what a
// counted one calls inside is its own affair, unless it is a harmless one (a view, an allocation, a fill) that calls
// something else. An operator of a namespace that torch does not have is the submission's own: looked through too.

#include <ATen/record_function.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>

namespace {

struct Entry {
    std::string name;
    bool transparent = false, harmless = false;
    std::atomic<uint64_t> count{0}, held{0};
};

std::mutex guard;
std::map<std::string, Entry> entries;
std::unordered_set<std::string> composites, namespaces, harmless_names;

constexpr size_t KNOWN = 1024;

struct Known {
    const char* name = nullptr;
    Entry* entry = nullptr;
};

thread_local Known known[KNOWN];
// How deep this thread is inside of a counted operator, and whether that is a harmless one.
thread_local int64_t depth = 0;
thread_local bool within_harmless = false;

Entry* look_up(const at::RecordFunction& fn) {
    const std::string name = fn.name();
    const auto of = fn.operator_name();
    const bool is_operator = of.has_value();
    const std::string full = is_operator && !of->overload_name.empty() ? name + "." + of->overload_name : name;
    const size_t colon = name.find("::");
    const std::lock_guard<std::mutex> lock(guard);
    // a scope of somebody's that is only named like an operator has another entry
    Entry& entry = entries[is_operator ? full : "scope " + full];
    entry.name = name;
    entry.transparent = !is_operator || colon == std::string::npos || composites.count(full) > 0 ||
                        namespaces.count(name.substr(0, colon)) == 0;
    entry.harmless = is_operator && colon != std::string::npos && harmless_names.count(name.substr(colon + 2)) > 0;
    return &entry;
}

// An operator's name lies in its schema: one address an overload. Another's text may lie there later, hence the look.
Entry* entry_of(const at::RecordFunction& fn) {
    const char* name = fn.name();
    Known& slot = known[(reinterpret_cast<uintptr_t>(name) >> 4) % KNOWN];
    if (slot.name != name || slot.entry->name != name) {
        slot = {name, look_up(fn)};
    }
    return slot.entry;
}

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& fn) {
    if (depth > 0) {
        depth += 1;
        if (within_harmless) {
            Entry* inner = entry_of(fn);
            if (!inner->transparent && !inner->harmless) {
                inner->count.fetch_add(1, std::memory_order_relaxed);
            }
        }
        return nullptr;
    }
    Entry* entry = entry_of(fn);
    if (!entry->transparent) {
        entry->count.fetch_add(1, std::memory_order_relaxed);
        within_harmless = entry->harmless;
        depth = 1;
    }
    return nullptr;
}

void on_end(const at::RecordFunction&, at::ObserverContext*) {
    if (depth > 0) {
        depth -= 1;
    }
}

void split(const char* text, std::unordered_set<std::string>& into) {
    while (*text != '\0') {
        const size_t length = std::strcspn(text, " ");
        into.emplace(text, length);
        text += length + (text[length] == ' ');
    }
}

}  // namespace

// Starts counting. Names are separated by single spaces: composites as `aten::to.dtype`, torch's namespaces as `aten`,
// harmless ones as `view`.
extern "C" void observer_operators_start(const char* composite, const char* owned, const char* harmless) {
    split(composite, composites);
    split(owned, namespaces);
    split(harmless, harmless_names);
    at::addGlobalCallback(at::RecordFunctionCallback(on_start, on_end).scopes({at::RecordScope::FUNCTION}));
}

// Forgets what was counted; how many that were.
extern "C" long observer_operators_reset() {
    const std::lock_guard<std::mutex> lock(guard);
    long seen = 0;
    for (auto& item : entries) {
        seen += static_cast<long>(item.second.count.exchange(0));
    }
    return seen;
}

// Puts what was counted aside for `read`, and counts anew.
extern "C" void observer_operators_hold() {
    const std::lock_guard<std::mutex> lock(guard);
    for (auto& item : entries) {
        item.second.held.store(item.second.count.exchange(0));
    }
}

// Writes lines `NAME \t COUNT` of what was put aside. The bytes needed: above `room` nothing was written.
extern "C" long observer_operators_read(char* out, size_t room) {
    const std::lock_guard<std::mutex> lock(guard);
    std::string text;
    for (const auto& item : entries) {
        if (const uint64_t held = item.second.held.load()) {
            text += item.first + '\t' + std::to_string(held) + '\n';
        }
    }
    if (text.size() <= room) {
        std::memcpy(out, text.data(), text.size());
    }
    return static_cast<long>(text.size());
}

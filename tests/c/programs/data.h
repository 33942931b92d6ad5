/* What the programs about containers share: values in starter memory, and words read from anywhere. C and C++. */
#ifndef DATA_H
#define DATA_H

#include "check.h"

/* The 8 bytes at a global address. */
static inline uint64_t load(acp_ga_t ga)
{
    copy_now(word_ga(acp_rank(), 100), ga, 8);
    return *my_word(100);
}

/* Bytes at an address of this rank that containers copy from: a number, repeated. */
static inline acp_ga_t bytes_of(int value, size_t size)
{
    memset((void *)acp_query_address(word_ga(acp_rank(), 110)), value, size);
    CHECK(size <= 128);
    return word_ga(acp_rank(), 110);
}

/* A number of 8 bytes as an element; `place` is one of several that can be in use at once. */
static inline acp_element_t number(uint64_t value, int place)
{
    acp_element_t element;
    *my_word(101 + place) = value;
    element.ga = word_ga(acp_rank(), 101 + place);
    element.size = 8;
    return element;
}

#endif

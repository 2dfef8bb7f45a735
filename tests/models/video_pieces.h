/* The tests of video_pieces.c. */
#ifndef ZN_TESTS_VIDEO_PIECES_H
#define ZN_TESTS_VIDEO_PIECES_H

void pieces_have_the_bits_of_the_whole(void **state);
void stages_have_the_bits_of_the_whole(void **state);
void bf16_is_near_f32(void **state);
void large_frames_take_what_layers_retain(void **state);
void bf16_halves_what_layers_retain(void **state);
void bf16_takes_less_than_f32(void **state);
void bf16_is_all_that_layers_retain(void **state);
void lean_weights_leave_large_maps_in_bf16(void **state);
void pictures_may_come_together(void **state);

#endif

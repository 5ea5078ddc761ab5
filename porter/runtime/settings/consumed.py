"""What helpers of the runtime read of an object that the port keeps: a keyword that none of them reads isn't carried.

Real calls with objects that note what is read of them say the same (tests/runtime/test_consumed.py).
"""

from __future__ import annotations

CONSUMED: dict[str, frozenset[str]] = {
    "SFTBatches.from_args": frozenset(
        """
        assistant_only_loss average_tokens_across_devices chat_template_path completion_only_loss data_seed
        dataloader_drop_last dataset_kwargs dataset_num_proc dataset_text_field eos_token eval_packing
        gradient_accumulation_steps group_by_length label_smoothing_factor max_length max_steps neftune_noise_alpha
        num_train_epochs packing packing_strategy pad_to_multiple_of pad_token padding_free per_device_train_batch_size
        seed shuffle_dataset train_sampling_strategy truncation_mode
        """.split()
    ),
    "TrainerBatches.from_args": frozenset(
        """
        average_tokens_across_devices data_seed dataloader_drop_last gradient_accumulation_steps group_by_length
        label_smoothing_factor max_steps num_train_epochs per_device_train_batch_size remove_unused_columns seed
        train_sampling_strategy
        """.split()
    ),
    "PreferenceBatches.from_args": frozenset(
        """
        data_seed dataloader_drop_last dataset_num_proc gradient_accumulation_steps group_by_length loss_type
        max_completion_length max_length max_prompt_length max_steps num_train_epochs pad_to_multiple_of pad_token
        per_device_train_batch_size seed train_sampling_strategy truncation_mode
        """.split()
    ),
    "ORPOBatches.from_args": frozenset(
        """
        data_seed dataloader_drop_last dataset_num_proc gradient_accumulation_steps group_by_length max_length
        max_prompt_length max_steps num_train_epochs per_device_train_batch_size seed train_sampling_strategy
        truncation_mode
        """.split()
    ),
    "CPOBatches.from_args": frozenset(
        """
        data_seed dataloader_drop_last dataset_num_proc gradient_accumulation_steps group_by_length max_length
        max_prompt_length max_steps num_train_epochs per_device_train_batch_size seed train_sampling_strategy
        truncation_mode
        """.split()
    ),
    "KTOBatches.from_args": frozenset(
        """
        data_seed dataloader_drop_last dataset_num_proc gradient_accumulation_steps group_by_length loss_type max_length
        max_prompt_length max_steps num_train_epochs pad_to_multiple_of per_device_train_batch_size seed
        train_sampling_strategy truncation_mode
        """.split()
    ),
    "GKDBatches.from_args": frozenset(
        """
        average_tokens_across_devices chat_template_path data_seed dataloader_drop_last eos_token
        gradient_accumulation_steps group_by_length lmbda max_length max_new_tokens max_steps num_train_epochs
        per_device_train_batch_size seed seq_kd temperature train_sampling_strategy
        """.split()
    ),
    "GRPOBatches.from_args": frozenset(
        """
        beta chat_template_kwargs delta epsilon epsilon_high eval_strategy generation_batch_size
        gradient_accumulation_steps importance_sampling_level loss_type mask_truncated_completions max_completion_length
        max_prompt_length max_steps min_p multi_objective_aggregation num_generations num_iterations num_train_epochs
        off_policy_mask_threshold per_device_train_batch_size repetition_penalty reward_weights sapo_temperature_neg
        sapo_temperature_pos scale_rewards seed shuffle_dataset steps_per_generation temperature top_k top_p
        use_bias_correction_kl use_vllm vespo_k_neg vespo_k_pos vespo_lambda_neg vespo_lambda_pos
        """.split()
    ),
    "RLOOBatches.from_args": frozenset(
        """
        beta chat_template_kwargs epsilon epsilon_high eval_strategy generation_batch_size gradient_accumulation_steps
        mask_truncated_completions max_completion_length max_prompt_length max_steps min_p normalize_advantages
        num_generations num_iterations num_train_epochs per_device_train_batch_size repetition_penalty reward_clip_range
        reward_weights seed shuffle_dataset steps_per_generation temperature top_k top_p use_vllm
        """.split()
    ),
    "preference_loss": frozenset(
        """
        alpha beta cpo_alpha desirable_weight discopop_tau f_alpha_divergence_coef f_divergence_type label_smoothing
        ld_alpha loss_type loss_weights reference_free rpo_alpha simpo_gamma undesirable_weight use_weighting
        """.split()
    ),
    "training_config": frozenset(
        """
        eval_steps eval_strategy load_best_model_at_end logging_dir metric_for_best_model neftune_noise_alpha output_dir
        push_to_hub report_to resume_from_checkpoint run_name save_steps save_strategy save_total_limit
        """.split()
    ),
    "training_hooks": frozenset(
        """
        eval_on_start eval_strategy greater_is_better logging_first_step logging_steps logging_strategy
        metric_for_best_model output_dir save_strategy
        """.split()
    ),
    "load_arguments": frozenset(
        """
        bf16 deepspeed fp16 fsdp model_init_kwargs
        """.split()
    ),
    "apply_peft": frozenset(
        """
        alpha_pattern exclude_modules init_lora_weights layers_pattern layers_to_transform lora_alpha lora_dropout r
        rank_pattern target_modules use_rslora
        """.split()
    ),
    "load_model(quantization=)": frozenset(
        """
        bnb_4bit_quant_type llm_int8_has_fp16_weight llm_int8_skip_modules load_in_4bit load_in_8bit
        """.split()
    ),
}
